import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: ["**/static/bundle/*", "**/site/bundle/*"] },
  js.configs.recommended,
  {
    files: ["**/static/**/*.js", "**/site/**/*.js"],
    languageOptions: { globals: globals.browser },
    rules: {
      "max-lines": ["error", 600],
      "max-lines-per-function": ["error", { max: 60, skipComments: true }],
      "max-params": ["error", 7],
      "no-undef": "error",
      "no-unused-vars": "error",
      "no-var": "error",
      "prefer-const": "error",
      eqeqeq: "error",
      "no-async-promise-executor": "error",
      "max-classes-per-file": ["error", 1],
    },
  },
  { files: ["**/javascript/**/*.js", "**/bundle/*.cjs"], languageOptions: { globals: globals.node } },
];
