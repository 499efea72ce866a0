// What a walk asks of a page: what it is busy with, what is wrong on it, and which controls it has. Put into every page
// before its own scripts, so that no event of Gradio's goes unseen.

window.walk = (() => {
  const events = new Set(), seen = (node) => node.offsetWidth > 0 && node.checkVisibility({ visibilityProperty: true });
  const all = (what, root = document) => [...root.querySelectorAll(what)].filter(seen);
  const words = (node, most = 60) => (node?.innerText ?? "").trim().replace(/\s+/g, " ").slice(0, most);

  // Gradio asks for an event by one request, and hears over another one how it goes.
  const ask = window.fetch;
  window.fetch = async (...given) => {
    const url = String(given[0]?.url ?? given[0]);
    if (url.includes("/queue/join")) events.add(given);
    try {
      const answer = await ask(...given);
      if (url.includes("/queue/join") && answer.ok) answer.clone().json().then(({ event_id }) => events.add(event_id)).finally(() => events.delete(given));
      if (url.includes("/queue/join") && !answer.ok) events.delete(given);
      if (url.includes("/queue/data")) hear(answer.clone().body.getReader()).catch(() => {}); // a stream that the page ends
      return answer;
    } catch (error) {
      events.delete(given);
      throw error;
    }
  };
  const over = new Set();
  async function hear(reader) {
    const decoder = new TextDecoder();
    for (let rest = "", part; !(part = await reader.read()).done;) {
      const lines = (rest + decoder.decode(part.value, { stream: true })).split("\n");
      rest = lines.pop();
      for (const line of lines) {
        const id = /"msg": ?"process_completed"/.test(line) && /"event_id": ?"(\w+)"/.exec(line)?.[1];
        if (id) over.add(id);
      }
    }
  }

  const busy = () => {
    over.forEach((id) => events.delete(id));
    return [
      ...(events.size ? [`${events.size} events are not answered`] : []),
      ...all("hfposemb-row .panel").filter((one) => one.dataset.state === "loading").map((one) => `panel ${one.dataset.key} is being drawn`),
      ...(document.querySelector(".pending [data-drawing]") ? ["a row waits"] : []),
      ...all(".work .track").map((one) => `work: ${words(one.closest(".work"), 120)}`),
    ];
  };

  const empty = (panel) => {
    const plots = [...panel.querySelectorAll(".plot")];
    if (plots.length) return plots.some((plot) => !plot.querySelector("canvas, .main-svg *"));
    return !panel.querySelector(".lists li, .numbers p, .message, .subtitle");
  };
  const faults = () => [
    ...all("[role=alert], .failed").map((one) => `alert: ${words(one, 200)}`),
    ...all(".panel.error, .panel[data-state=failed]").map((one) => `failed panel ${one.dataset.key}: ${words(one, 200)}`),
    ...all(".panel[data-state=drawn]").filter(empty).map((one) => `empty panel ${one.dataset.key}`),
    ...all("hfposemb-row").filter((one) => !one.querySelector(".panel") && one.offsetHeight > 40).map((one) => `empty row of ${one.offsetHeight} px`),
    ...all(".toast-body").map((one) => `toast: ${words(one, 200)}`),
    ...(document.documentElement.scrollWidth > innerWidth ? [`the page is ${document.documentElement.scrollWidth} px wide in a window of ${innerWidth}`] : []),
  ];

  // Every control of the tab on the screen; of a group of choices those that are not chosen. Saving files is left out.
  const UNUSED = /^(PNG|SVG|CSV|Cancel|Copy|Copied|Download.*|Remove .*|Clear.*)$/;
  const controls = () => {
    const root = all("[role=tabpanel]")[0], found = [];
    document.querySelectorAll("[data-walk]").forEach((one) => delete one.dataset.walk);
    const add = (node, kind, name) => {
      const key = `${kind}: ${name}`;
      if (node.disabled || found.some((one) => one.key === key)) return;
      node.dataset.walk = String(found.length);
      found.push({ key, kind, place: found.length });
    };
    const named = (node) => node.getAttribute("aria-label") || words(node.closest("label, .block")?.querySelector("[data-testid=block-info], span"));
    for (const node of root.querySelectorAll("input[type=radio]:not(:checked)")) {
      const label = node.closest("label");
      if (label && seen(label)) add(label, "choice", `${words(node.closest("fieldset")?.querySelector("[data-testid=block-info], legend, span"))} = ${words(label)}`);
    }
    for (const node of all("input[type=checkbox]", root)) add(node, "checkbox", words(node.closest("label")));
    for (const node of all("input[type=range]", root)) add(node, "slider", named(node));
    for (const node of all("input[role=listbox], input[role=combobox]", root)) if (!node.closest(".sources")) add(node, "dropdown", named(node));
    for (const node of all("textarea, input[type=text]:not([role])", root)) add(node, "text", named(node));
    for (const node of all("summary", root)) add(node, "fold", words(node));
    for (const node of all("button, .neighbour", root)) {
      const name = words(node) || node.getAttribute("aria-label") || node.title, panel = node.closest(".panel")?.dataset.key;
      if (UNUSED.test(name) || node.closest("[role=tablist], .sources")) continue;
      const own = node.classList.contains("neighbour") ? "a neighbour" : name;
      add(node, node.classList.contains("label-wrap") ? "accordion" : "button", panel ? `${panel}, ${own}` : own);
    }
    return found;
  };
  return { busy, faults, controls };
})();
