// The element of a row.

/** Define the element, which says when it enters the page and when it leaves it. */
export function defineRow() {
  if (customElements.get("hfposemb-row")) return;
  customElements.define("hfposemb-row", class extends HTMLElement {
    connectedCallback() {
      this.dispatchEvent(new Event("entered"));
    }

    disconnectedCallback() {
      queueMicrotask(() => this.isConnected || this.dispatchEvent(new Event("left")));
    }
  });
}
