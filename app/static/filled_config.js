// Restores the configuration of a Gradio page from the shorter form that page_config.py writes.

/**
 * Return a configuration in whose lists every object has the properties that it shares with others of its kind.
 * @param {Record<string, any>} config - lists hold pairs of the number of a kind and what is the object's own
 * @param {Record<string, any[]>} shared - for each list what the objects of each kind share
 * @returns {Record<string, any>}
 */
export function filledConfig(config, shared) {
  for (const [list, kinds] of Object.entries(shared)) {
    config[list] = config[list].map((/** @type {[number, any]} */ [kind, own]) => {
      const { props, ...rest } = structuredClone(kinds[kind]); // Gradio writes into what it gets
      return props ? { ...rest, ...own, props: { ...props, ...own.props } } : { ...rest, ...own };
    });
  }
  return config;
}
