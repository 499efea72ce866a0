// Where else the code of a panel runs: in a notebook, in Colab, and the whole view in a Space of one's own.

import { button, h } from "./elements.js";
import { fileName } from "../plots/export.js";

const COLAB = "https://colab.research.google.com/#create=true";
const SPACE_PAGES = "https://huggingface.co/spaces";
const INSTALL = "# Until hfposemb is published, from a checkout: %pip install -q '.[umap,plot,probes]'";

/**
 * Return code as the text of a Jupyter notebook.
 * @param {string} title
 * @param {string} python
 * @param {string} [address] of the view
 */
export function notebook(title, python, address) {
  const cells = [
    textCell(`# ${title}\n\nThe code that computes this panel of hfposemb${address ? `: ${address}` : ""}`),
    codeCell(INSTALL), codeCell(python.trimEnd()),
  ].map((cell, place) => ({ ...cell, id: `cell-${place}` }));
  const kernel = { display_name: "Python 3", language: "python", name: "python3" };
  return JSON.stringify({ cells, metadata: { kernelspec: kernel }, nbformat: 4, nbformat_minor: 5 }, null, 1);
}

/** @param {string} text */
const textCell = (text) => ({ cell_type: "markdown", metadata: {}, source: eachLine(text) });

/** @param {string} text */
const codeCell = (text) =>
  ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source: eachLine(text) });

/** @param {string} text */
const eachLine = (text) => text.split(/(?<=\n)/);

/**
 * Return where the code of a panel, and its view, can be opened.
 * @param {RecipeSpec} recipe
 * @param {string} title of the panel
 * @param {(text: string, type: string, filename: string) => void} save
 * @param {string} [address] of the view, if others can open it
 */
export function openPart({ python, space }, title, save, address) {
  const file = button("action", "Notebook");
  file.setAttribute("aria-label", `Notebook: ${title}`);
  file.title = "Save as .ipynb, for Jupyter, VS Code or Colab";
  file.onclick = () => save(notebook(title, python, address), "application/x-ipynb+json", `${fileName(title)}.ipynb`);
  const colab = outward("Colab", COLAB, "Copy the code and open an empty notebook in Colab");
  colab.addEventListener("click", () => navigator.clipboard?.writeText(`!${INSTALL.slice(1)}\n${python}`));
  const own = space && outward("Your Space", `${SPACE_PAGES}/${space}?duplicate=true`, "Duplicate this Space");
  return h("div", "open-in", h("p", "", h("strong", "", "Open in"), h("span", "actions", file, colab, own || null)));
}

/**
 * @param {string} name
 * @param {string} address
 * @param {string} title
 */
function outward(name, address, title) {
  const link = h("a", "action", name);
  Object.assign(link, { href: address, target: "_blank", rel: "noopener", title });
  return link;
}
