import { defineConfig } from "vite";

// The node whose console this is while it is being worked on: npm run dev.
const node = process.env["HEADGATE_ADMIN"] ?? "http://127.0.0.1:8084";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: ["chrome123", "firefox128", "safari17.5"],
    // What is inlined as a data: address would need a wider Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
    emptyOutDir: true,
  },
  server: {
    proxy: Object.fromEntries(["/v1", "/metrics", "/healthz", "/readyz", "/openapi.json"].map((path) => [path, node])),
  },
});
