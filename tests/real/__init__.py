"""The whole product on checkpoints as large as real ones: commands, exports, snippets, API and the app in a browser."""
