// Dark or light: as the system says, or as the person chose.

const NAME = "obey-theme";
export type Theme = "system" | "dark" | "light";

export function theme(): Theme {
  try {
    const kept = localStorage.getItem(NAME);
    return kept === "dark" || kept === "light" ? kept : "system";
  } catch {
    return "system";
  }
}

export function setTheme(value: Theme): void {
  try {
    localStorage.setItem(NAME, value);
  } catch {
    // A browser without storage follows the system.
  }
  applyTheme(value);
}

export function applyTheme(value: Theme = theme()): void {
  if (value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = value;
}
