/** What a chart shows as a file: its picture, or its figures as CSV. */
import type { EChartsCoreOption } from "echarts/core";

export type Cell = string | number | boolean | null | undefined;
export type Figures = { head: string[]; rows: Cell[][] };

/** Hand a file to whoever asked for it. */
export function save(name: string, blob: Blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  // The browser reads it after this returns.
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function fileName(label: string, end: string): string {
  const words = label
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");
  return `${words.slice(0, 60) || "chart"}.${end}`;
}

export function picture(url: string): Blob {
  const bytes = atob(url.split(",")[1]!);
  return new Blob([Uint8Array.from(bytes, (byte) => byte.charCodeAt(0))], { type: "image/png" });
}

export function csv({ head, rows }: Figures): Blob {
  const lines = [head, ...rows].map((row) => row.map(quoted).join(","));
  return new Blob([lines.join("\r\n"), "\r\n"], { type: "text/csv" });
}

function quoted(value: Cell): string {
  const text = value === null || value === undefined ? "" : String(value);
  // A spreadsheet takes what begins so for a formula; names of models are anybody's.
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

type Series = { name?: string; type?: string; data?: readonly unknown[] };
type Axis = { name?: string; data?: readonly unknown[]; type?: string };

/** The points of all series, each with the name of its own. */
export function figuresOf(option: EChartsCoreOption): Figures {
  const series = many(option["series"]) as Series[];
  const [x, y] = ["xAxis", "yAxis"].map((name) => many(option[name])[0] as Axis | undefined);
  const names = x?.data ?? y?.data;
  const rows = series.flatMap(({ name, type, data }) =>
    (data ?? []).map((point, at) => {
      const value = Array.isArray(point) ? point : ((point as { value?: unknown } | null)?.value ?? point);
      const cells = Array.isArray(value) ? value : [names?.[at] ?? at, value];
      return [name ?? type ?? "", ...cells.map((cell) => cell as Cell)];
    }),
  );
  const widest = Math.max(3, ...rows.map((row) => row.length));
  const more = Array.from({ length: widest - 3 }, (_, at) => `value ${at + 2}`);
  return { head: ["series", x?.name ?? "x", y?.name ?? "value", ...more], rows };
}

const many = (value: unknown): unknown[] => (Array.isArray(value) ? value : value ? [value] : []);
