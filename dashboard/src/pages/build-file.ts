/** Builds of the command line, read from the files that they leave beside what they build. */
import { milliseconds } from "../format";
import type { Side, SideLayer } from "./compare-side";

type Place = {
  key: string;
  name: string;
  expected_s: number | null;
  spread: number | null;
  clock: string;
  disturbed: boolean;
  config: SideLayer["config"];
};

/** A build for one set of shapes, with the names that its file has. `name` is the file's, `set` says which of its
 * sets and targets it is, where there are several. A link carries it like this. */
export type Build = {
  name: string;
  set: string;
  target: { name: string };
  threads: number;
  numerics: string;
  estimate_s: number | null;
  inputs: Record<string, number[]>;
  layers: Place[];
};

/** What `tilefleet build` wrote, each set of shapes and kind of processor; throws an Error that says why not. */
export function readBuilds(name: string, text: string): Build[] {
  let found: unknown = null;
  try {
    found = JSON.parse(text);
  } catch {
    // It is told below.
  }
  const whole = record(found);
  const each = list(whole.layers) ? [whole] : (list(whole.shapes) ?? list(whole.variants) ?? []).map(record);
  const builds = each.flatMap((one) => buildOf({ ...whole, ...one, name, set: "" }) ?? []);
  if (builds.length === 0)
    throw new Error(`${name} is not the JSON file that tilefleet build writes beside a module.`);
  const parts = [({ inputs }: Build) => textOf(inputs), ({ target }: Build) => target.name];
  const telling = parts.filter((part) => new Set(builds.map(part)).size > 1);
  return builds.map((build) => ({ ...build, set: telling.map((part) => part(build)).join(", ") }));
}

function buildOf(one: Record<string, unknown>): Build | null {
  const target = record(one.target).name;
  const layers = list(one.layers);
  if (!layers || typeof target !== "string") return null;
  const inputs = Object.fromEntries(
    Object.entries(record(one.inputs)).map(([input, shape]) => [input, (list(shape) ?? []).map(Number)]),
  );
  return {
    name: String(one.name ?? ""),
    set: String(one.set ?? ""),
    target: { name: target },
    threads: Number(one.threads ?? 1),
    numerics: String(one.numerics ?? ""),
    estimate_s: figure(one.estimate_s),
    inputs,
    layers: layers.map(record).flatMap(({ key, name: text, expected_s, spread, clock, disturbed, config }) =>
      typeof key === "string"
        ? [
            {
              key,
              name: String(text),
              expected_s: figure(expected_s),
              spread: figure(spread),
              clock: typeof clock === "string" ? clock : "",
              disturbed: disturbed === true,
              config: config ? (record(config) as SideLayer["config"]) : null,
            },
          ]
        : [],
    ),
  };
}

const record = (value: unknown) =>
  (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}) as Record<
    string,
    unknown
  >;
const list = (value: unknown) => (Array.isArray(value) ? (value as unknown[]) : null);
const figure = (value: unknown) => (typeof value === "number" ? value : null);
const textOf = (inputs: Build["inputs"]) =>
  Object.entries(inputs)
    .map(([input, shape]) => `${input}=${shape.join("x")}`)
    .join(" ");

/** What tells builds apart: a file may have several. */
export const idOf = ({ name, set }: Build) => `${name} ${set}`;

export function sideOfBuild(build: Build): Side {
  const { name, set, target, threads, estimate_s, inputs, numerics } = build;
  const title = set ? `${name}, ${set}` : name;
  const places = new Map<string, Place[]>();
  for (const place of build.layers) places.set(place.key, [...(places.get(place.key) ?? []), place]);
  const clocks = new Set(build.layers.map(({ clock }) => clock).filter(Boolean));
  const estimated_ms = estimate_s === null ? null : 1e3 * estimate_s;
  const clock = clocks.size === 1 ? [...clocks][0]! : null;
  return {
    id: idOf(build),
    title,
    head: title,
    said: title,
    href: null,
    target: target.name,
    threads,
    clock,
    estimated_ms,
    time: estimated_ms === null ? null : { ms: estimated_ms, noise: 0, delivered: false },
    facts: {
      Target: target.name,
      ...(clock && { Clock: clock }),
      Threads: String(threads),
      ...(numerics && { Numerics: numerics }),
      ...(Object.keys(inputs).length && { Inputs: textOf(inputs) }),
      Estimated: milliseconds(estimated_ms),
    },
    layers: [...places.values()].map(together),
  };
}

/** One line for all places of a workload: a build may have other configs at each. */
function together(places: Place[]): SideLayer {
  const { key, name } = places[0]!;
  const known = places.filter(({ expected_s }) => expected_s !== null);
  const alike = new Set(places.map(({ config }) => JSON.stringify(config))).size === 1;
  const all = known.length === places.length;
  return {
    key,
    text: name,
    weight: places.length,
    seconds: all ? known.reduce((sum, { expected_s }) => sum + expected_s!, 0) / known.length : null,
    disturbed: places.some(({ disturbed }) => disturbed),
    // Of several configs the widest: none of them is told apart by less.
    spread: all && known.some(({ spread }) => spread !== null) ? Math.max(...known.map(wide)) : null,
    config: alike ? places[0]!.config : null,
    version: null,
  };
}

const wide = ({ spread }: Place) => spread ?? 0;

const ANCHOR = "#builds=";

/** The anchor of an address that carries builds; none without any. */
export async function anchorOf(builds: Build[]): Promise<string> {
  if (builds.length === 0) return "";
  const packed = await through(new CompressionStream("deflate-raw"), new Blob([JSON.stringify(builds)]));
  const bytes = [...new Uint8Array(await packed.arrayBuffer())].map((each) => String.fromCharCode(each));
  return ANCHOR + btoa(bytes.join("")).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The builds of an address' anchor, null where it has none: a link may be from anybody, and be cut. */
export async function buildsOf(anchor: string): Promise<Build[] | null> {
  if (!anchor.startsWith(ANCHOR)) return null;
  try {
    const packed = atob(anchor.slice(ANCHOR.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(packed, (each) => each.charCodeAt(0));
    const text = await (await through(new DecompressionStream("deflate-raw"), new Blob([bytes]))).text();
    return (list(JSON.parse(text)) ?? []).map(record).flatMap((each) => buildOf(each) ?? []);
  } catch {
    return null;
  }
}

const through = (way: CompressionStream | DecompressionStream, blob: Blob) =>
  new Response(blob.stream().pipeThrough(way)).blob();
