// How the page is built. The output is committed, so nothing in it may depend on the machine.
import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte({ compilerOptions: { runes: true } })],
  build: {
    target: "es2022",
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    outDir: process.env["OBEY_WEB_OUT"] ?? "dist",
    emptyOutDir: true,
  },
});
