// What the screen that is shown lends to the palette.

export interface ScreenActs {
  print?: () => void;
  copyLink?: () => void;
  beginning?: () => void;
}

export const acts: ScreenActs = {};
