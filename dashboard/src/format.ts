/** Figures for people. Times come in seconds. Units stay with their figures: the spaces do not break. */

import type { Job } from "./api/client";

/** Three digits that count: 1.23 µs, 45.6 ms, 7.89 s. */
export function seconds(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value < 1e-3) return `${digits(value * 1e6)} µs`;
  if (value < 1) return `${digits(value * 1e3)} ms`;
  return value < 90 ? `${digits(value)} s` : duration(value);
}

/** Milliseconds as `seconds`. */
export function milliseconds(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : seconds(value / 1e3);
}

/** What a job's built model takes: as it was raced, else 5.31 ms ± 2 %, of the runs' interquartile range. */
export function measured({ built, verdict }: Pick<Job, "built" | "verdict">): string {
  if (verdict) return milliseconds(verdict.delivered_ms);
  return built?.measured_ms
    ? `${milliseconds(built.measured_ms)} ±\u00a0${percent((built.spread ?? 0) / 2)}`
    : "–";
}

/** 95 s as 1 min 35 s. */
export function duration(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const whole = Math.round(value);
  if (whole < 90) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  return minutes < 90
    ? `${minutes} min ${whole % 60} s`
    : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function digits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Of what is less than one, a decimal: of 500 layers most are. */
export function percent(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  const hundredths = 100 * value;
  const small = hundredths >= 0.05 && hundredths < 0.95;
  return `${small ? hundredths.toFixed(1) : Math.round(hundredths)}\u00a0%`;
}

type Unit = "FLOP" | "OP";

/** Operations of floats or integers, in millions: 231 MFLOP, 231 MOP. */
export function millions(operations: number, unit: Unit): string {
  return `${digits(operations / 1e6)} M${unit}`;
}

/** Billions of operations a second: 91.2 GFLOP/s, 183 GOP/s. */
export function rate(giga: number | null | undefined, unit: Unit): string {
  return giga === null || giga === undefined ? "–" : `${digits(giga)} G${unit}/s`;
}

/** How long ago an ISO 8601 time was, in one unit: 12 s, 47 min, 5 h, 3 days. */
export function ago(time: string | null | undefined): string {
  if (!time) return "never";
  const minutes = (Date.now() - Date.parse(time)) / 6e4;
  if (minutes < 1) return `${Math.round(minutes * 60)} s ago`;
  if (minutes < 90) return `${Math.round(minutes)} min ago`;
  return minutes < 36 * 60 ? `${Math.round(minutes / 60)} h ago` : `${Math.round(minutes / 1440)} days ago`;
}

export function isSimulated(clock: string): boolean {
  return clock !== "wall";
}

/** A word as a shell reads it back: names of models and inputs are anybody's. */
export function quoted(word: string): string {
  return /^[\w.,:=/-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** Knobs as `name=value`, the kernel first. */
export function config(value: Record<string, unknown> | null): string {
  if (value === null) return "–";
  const { kernel, ...knobs } = value;
  return `${kernel} ${Object.entries(knobs)
    .map(([name, knob]) => `${name}=${knob}`)
    .join(" ")}`;
}

/** Bytes as KB or MB. */
export function kilobytes(bytes: number): string {
  const kb = bytes / 1024;
  return kb < 1024 ? `${kb < 10 ? kb.toFixed(1) : kb.toFixed(0)} KB` : `${digits(kb / 1024)} MB`;
}
