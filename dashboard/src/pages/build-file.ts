/** Builds of the command line, read from the files that they leave beside what they build. */
import type { Job, Task } from "../api/client";

type Layer = {
  key: string;
  name: string;
  weight: number;
  seconds: number | null;
  config: Task["best_config"];
};
export type Build = {
  name: string;
  target: string;
  threads: number;
  estimate_s: number | null;
  layers: Layer[];
};

type Written = {
  target?: { name?: string };
  threads?: number;
  estimate_s?: number;
  layers?: {
    key: string | null;
    name: string;
    expected_s: number | null;
    config: Task["best_config"];
  }[];
};

/** What `tilefleet build` wrote; of a build for several sets of shapes, the first. Throws an Error that says why not. */
export function readBuild(name: string, text: string): Build {
  let found: (Written & { shapes?: Written[]; variants?: Written[] }) | null = null;
  try {
    found = JSON.parse(text);
  } catch {
    // It is told below.
  }
  const one = found?.layers ? found : (found?.shapes?.[0] ?? found?.variants?.[0]);
  const target = one?.target?.name ?? found?.target?.name;
  if (!Array.isArray(one?.layers) || !target)
    throw new Error(`${name} is not the JSON file that tilefleet build writes beside a module.`);
  const layers = new Map<string, Layer[]>();
  for (const { key, name: text, expected_s, config } of one.layers)
    if (key)
      layers.set(key, [
        ...(layers.get(key) ?? []),
        {
          key: String(key),
          name: String(text),
          weight: 1,
          seconds: typeof expected_s === "number" ? expected_s : null,
          config,
        },
      ]);
  return {
    name,
    target,
    threads: one.threads ?? found?.threads ?? 1,
    estimate_s: typeof one.estimate_s === "number" ? one.estimate_s : null,
    layers: [...layers.values()].map(together),
  };
}

/** One line for all places of a workload: a build may have other configs at each. */
function together(places: Layer[]): Layer {
  const times = places.map(({ seconds }) => seconds);
  const known = times.filter((each) => each !== null);
  const alike = new Set(places.map(({ config }) => JSON.stringify(config))).size === 1;
  return {
    ...places[0]!,
    weight: places.length,
    seconds: known.length < times.length ? null : known.reduce((sum, each) => sum + each, 0) / known.length,
    config: alike ? places[0]!.config : null,
  };
}

/** A build as pages show a job, which it has no number of. */
export function jobOf({ name, target, threads, estimate_s }: Build, id: number): Job {
  return {
    ...NOTHING,
    id,
    name,
    target,
    threads,
    estimated_ms: estimate_s === null ? null : 1e3 * estimate_s,
  };
}

/** Its layers as those of a job. */
export function tasksOf({ layers }: Build): Task[] {
  return layers.map(({ key, name, weight, seconds, config }, id) => ({
    ...NONE,
    id,
    workload_key: key,
    text: name,
    weight,
    best_s: seconds,
    best_config: config,
  }));
}

const NOTHING: Job = {
  id: 0,
  model: null,
  model_name: null,
  workload: null,
  target: "",
  threads: 1,
  clock: "",
  strategy: "",
  seed: 0,
  numerics: "exact",
  priority: 0,
  tags: [],
  name: "",
  labels: [],
  submitter: "",
  version: "",
  budget: { trials: null, seconds: null },
  shapes: null,
  state: "done",
  message: "",
  waiting: null,
  deadline: null,
  created: "",
  started: null,
  finished: null,
  trials: 0,
  failed: 0,
  reused: 0,
  trials_per_s: null,
  eta_s: null,
  elapsed_s: 0,
  estimated_ms: null,
  recommended_ms: null,
  built: null,
  peak_gflops: null,
  errors: {},
};

const NONE: Task = {
  id: 0,
  workload_key: "",
  text: "",
  workload: {},
  weight: 1,
  flops: 0,
  unit: "FLOP",
  state: "done",
  trials: 0,
  failed: 0,
  reused: 0,
  best_s: null,
  best_disturbed: false,
  best_spread: null,
  best_kernel_version: null,
  recommended_s: null,
  gflops: null,
  share_of_peak: null,
  bound_s: null,
  best_config: null,
  best_layouts: null,
  curve: [],
  baselines: [],
  share: null,
  errors: {},
  messages: {},
};
