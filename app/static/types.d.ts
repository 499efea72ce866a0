// The types that the modules of the app share, for the type checker alone.

/** A function of the app, what Gradio hands it, and the options that Python gives. */
type Call = [name: string, host: any, options: any];

interface Window {
  hfposembCalls?: Call[] | { push: (call: Call) => void };
}
