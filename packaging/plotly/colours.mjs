import { converter, formatHex, formatRgb, wcagContrast, wcagLuminance, useMode, modeRgb, modeHsl, modeLrgb } from "culori/fn";
useMode(modeRgb);
useMode(modeHsl);
useMode(modeLrgb);
export { converter, formatHex, formatRgb, wcagContrast, wcagLuminance };
