// Suggestions for a text box, which Gradio gives no list.

/**
 * Give the inputs of a class the list of suggestions, also where Gradio creates them anew.
 * @param {GradioElement} host
 * @param {{ box: string, list: string }} options
 */
export function joinSuggestions({ element }, { box, list }) {
  const join = () => {
    for (const input of document.querySelectorAll(`.${box} input`)) {
      if (input.getAttribute("list") !== list) input.setAttribute("list", list);
    }
  };
  join();
  const observer = new MutationObserver(() => (element.isConnected ? join() : observer.disconnect()));
  observer.observe(element.closest(".gradio-container") ?? document.body, { childList: true, subtree: true });
}
