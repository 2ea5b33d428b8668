/** What is compared: a job or a build of the command line, by what both have. */
import type { Job, Task } from "../api/client";
import { duration, measured, milliseconds } from "../format";
import { besidePeer, gainOf, nameOf, untunedOf } from "../parts/job-names";
import type { Timed } from "./job-history";
import { timeOf } from "./job-history";

/** A workload with its best config; `weight` is how often it occurs, 0 of what is beside the model's sum. */
export type SideLayer = {
  key: string;
  text: string;
  weight: number;
  seconds: number | null;
  disturbed: boolean;
  spread: number | null;
  config: Task["best_config"];
  version: number | null;
};

export type Side = {
  id: string;
  /** What it is called: in a list, over a column, and in a sentence. */
  title: string;
  head: string;
  said: string;
  /** The page that it has. */
  href: string | null;
  target: string;
  threads: number;
  /** What its times are by; null where that is not known, or each layer has its own. */
  clock: string | null;
  estimated_ms: number | null;
  /** What its model takes; estimates of jobs have in them what their own builds were seen to do, so a build's
   * is not held against them. */
  time: Timed | null;
  facts: Partial<Record<Fact, string>>;
  layers: SideLayer[];
};

export const FACTS = [
  "State",
  "Model",
  "Target",
  "Clock",
  "Threads",
  "Numerics",
  "Strategy",
  "Seed",
  "Budget",
  "Shapes",
  "Inputs",
  "Board tags",
  "Labels",
  "Version",
  "Submitted",
  "Trials",
  "Took",
  "Untuned",
  "Estimated",
  "Delivered",
  "Gain by tuning",
  "Beside its runtime",
] as const;
export type Fact = (typeof FACTS)[number];

/** Whether times of the two may be held against each other: two clocks have nothing in common. */
export const comparable = (one: Side, other: Side) => one.clock !== null && one.clock === other.clock;

export function sideOf(job: Job, tasks: Task[]): Side {
  return {
    id: `job ${job.id}`,
    title: nameOf(job),
    head: `Job ${job.id}`,
    said: `job ${job.id}`,
    href: `/jobs/${job.id}`,
    target: job.target,
    threads: job.threads,
    clock: job.clock,
    estimated_ms: job.estimated_ms,
    time: timeOf(job),
    facts: factsOf(job),
    layers: tasks.map((task) => ({
      key: task.workload_key,
      text: task.text,
      weight: task.weight,
      seconds: task.best_s,
      disturbed: task.best_disturbed,
      spread: task.best_spread,
      config: task.best_config,
      version: task.best_kernel_version,
    })),
  };
}

function factsOf(job: Job): Side["facts"] {
  const { trials, seconds } = job.budget;
  return {
    State: job.state,
    Model: job.model_name ?? "one workload",
    Target: job.target,
    Clock: job.clock,
    Threads: String(job.threads),
    Numerics: job.numerics,
    Strategy: job.strategy,
    Seed: String(job.seed),
    Budget: [trials && `${trials} trials`, seconds && duration(seconds)].filter(Boolean).join(", ") || "none",
    Shapes: job.shapes ? JSON.stringify(job.shapes) : "of the model",
    "Board tags": job.tags.join(", ") || "any board",
    Labels: job.labels.join(", ") || "none",
    Version: job.version || "not kept",
    Submitted: new Date(job.created).toLocaleString(),
    Trials: `${job.trials}${job.reused ? `, ${job.reused} known before` : ""}`,
    Took: duration(job.elapsed_s),
    Untuned: untunedOf(job),
    Estimated: milliseconds(job.estimated_ms),
    Delivered: measured(job),
    "Gain by tuning": gainOf(job),
    "Beside its runtime": besidePeer(job),
  };
}
