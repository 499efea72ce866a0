// Whether the page that holds the panels is dark: the app and reports say so, and so does each kind of notebook.

const CLASSES = ["dark", "vscode-dark", "vscode-high-contrast"];
const LIGHT = "vscode-high-contrast-light"; // stands beside vscode-high-contrast

/** Attributes of the page's root and body that say which theme it has. */
export const THEME_ATTRIBUTES = ["class", "theme", "data-theme", "data-jp-theme-light"];

/**
 * Return whether a page is dark, from its root and its body: a class of the app, a report, marimo or VS Code, the theme
 * of Colab, or that of JupyterLab.
 * @param {ThemedElement[]} elements
 * @returns {boolean}
 */
export function isDarkPage(elements) {
  return elements.some((element) => {
    const names = (element.getAttribute("class") ?? "").split(/\s+/);
    if (names.includes(LIGHT)) return false;
    return CLASSES.some((name) => names.includes(name))
      || element.getAttribute("data-jp-theme-light") === "false"
      || ["theme", "data-theme"].some((name) => element.getAttribute(name) === "dark");
  });
}
