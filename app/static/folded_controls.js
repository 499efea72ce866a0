// The line that stands for a bar of controls on a phone, where data come first.

/**
 * Return the line of a bar: what is chosen in its fields.
 * @param {string[]} chosen
 */
export function lineOf(chosen) {
  return chosen.map((text) => text.trim()).filter(Boolean).join(" · ") || "Controls";
}

/**
 * Name what is chosen in the bar that follows an element, and unfold the bar on a click.
 * @param {GradioElement} host
 */
export function foldControls({ element }) {
  const button = element.querySelector("button"), bar = element.closest(".block")?.nextElementSibling;
  if (!button || !bar) return;
  const say = () => {
    const chosen = [...bar.querySelectorAll("fieldset label.selected, input[role='combobox']")]
      .filter((field) => !field.closest(".hidden, .hide"))
      .map((field) => (field instanceof HTMLInputElement ? field.value : field.textContent ?? ""));
    const line = lineOf(chosen);
    if (button.textContent !== line) button.textContent = line;
  };
  button.addEventListener("click", () => {
    button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true"));
  });
  say();
  new MutationObserver(say).observe(bar, {
    childList: true, subtree: true, attributes: true, attributeFilter: ["class"],
  });
}
