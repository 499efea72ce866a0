// A box above each long table that shows the rows with every word typed into it.
const LONG = 24;

function filter(table) {
  const rows = [...table.tBodies[0].rows];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const box = Object.assign(document.createElement("input"), { type: "search", className: "filter", placeholder: "Filter rows" });
  box.setAttribute("aria-label", "Filter rows of the table below");
  const count = document.createElement("output");
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, place) => {
      row.hidden = !words.every((word) => texts[place].includes(word));
      shown += !row.hidden;
    });
    count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
  table.before(box, count);
}

for (const table of document.querySelectorAll("article table")) {
  if (table.tBodies.length && table.tBodies[0].rows.length >= LONG) filter(table);
}
