// Starts the page.
import "./app/theme.css";
import { mount } from "svelte";
import App from "./app/App.svelte";
import { applyTheme } from "./app/theme.ts";
import { registerWorker } from "./app/worker.ts";
import { store } from "./app/store.svelte.ts";

applyTheme();
const target = document.getElementById("app");
if (target) mount(App, { target });
void store.start();
void registerWorker();
