/** The colours of charts, for either theme: no two that stand for something differ by hue alone. */
export type Scheme = "light" | "dark";

const LINES = {
  light: ["#0c8599", "#e8590c", "#5f3dc4", "#2b8a3e", "#c2255c", "#1864ab", "#966000", "#495057"],
  dark: ["#3bc9db", "#ff922b", "#b197fc", "#69db7c", "#f783ac", "#74c0fc", "#ffd43b", "#ced4da"],
};
/** From good to bad: for times, from fast to slow. */
const RAMP = {
  light: ["#0b7285", "#22b8cf", "#c5f6fa", "#ffe8cc", "#ff922b", "#d9480f"],
  dark: ["#22b8cf", "#15aabf", "#0b5a66", "#5c3a1e", "#d9480f", "#ff922b"],
};

export const lines = (scheme: Scheme) => LINES[scheme];
export const ramp = (scheme: Scheme) => RAMP[scheme];
export const background = (scheme: Scheme) => (scheme === "dark" ? "#242424" : "#ffffff");

/** A theme of ECharts. */
export function themeOf(scheme: Scheme) {
  const dark = scheme === "dark";
  const [text, faint, line] = dark ? ["#c9c9c9", "#3b3b3b", "#828282"] : ["#343a40", "#e9ecef", "#868e96"];
  const plain = { color: text, textBorderWidth: 0 };
  const axis = {
    axisLine: { show: true, lineStyle: { color: line } },
    axisTick: { lineStyle: { color: line } },
    axisLabel: { color: text },
    nameTextStyle: { color: text },
    splitLine: { lineStyle: { color: faint } },
    minorSplitLine: { lineStyle: { color: faint } },
  };
  return {
    color: LINES[scheme],
    textStyle: { fontFamily: "system-ui, sans-serif", color: text },
    legend: { textStyle: { color: text }, pageTextStyle: { color: text }, inactiveColor: line },
    tooltip: {
      backgroundColor: dark ? "#2e2e2e" : "#ffffff",
      borderColor: line,
      textStyle: { color: text },
    },
    // Without the rim that is drawn around words by default, which a dark page makes unreadable.
    ...Object.fromEntries(
      ["bar", "line", "scatter"].map((kind) => [kind, { label: plain, markLine: { label: plain } }]),
    ),
    visualMap: { textStyle: { color: text } },
    parallel: { parallelAxisDefault: axis },
    dataZoom: { borderColor: faint, textStyle: { color: text } },
    categoryAxis: axis,
    valueAxis: axis,
    logAxis: axis,
    timeAxis: axis,
  };
}

type Rgb = [number, number, number];
const rgb = (colour: string) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)) as Rgb;

/** The colour at a part, 0 to 1, of the way through some. */
export function between(colours: string[], part: number): Rgb {
  const place = Math.min(1, Math.max(0, part)) * (colours.length - 1);
  const at = Math.min(colours.length - 2, Math.floor(place));
  const [from, to] = [rgb(colours[at]!), rgb(colours[at + 1]!)];
  return from.map((value, channel) => value + (to[channel]! - value) * (place - at)) as Rgb;
}

/** Black or white, whichever can be read there (WCAG's relative luminance). */
export function readableOn(colour: Rgb): string {
  const [red, green, blue] = colour.map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  }) as Rgb;
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.179 ? "#000000" : "#ffffff";
}
