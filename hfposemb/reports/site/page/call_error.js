// The error of a call of the worker.

/** An error that is shown as it is; "" if the reader cancelled. */
export class CallError extends Error {
  name = "CallError";
}
