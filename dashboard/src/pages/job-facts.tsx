/** What a job is, and what it waits for as long as it has nothing to show. */
import { Group } from "@mantine/core";

import type { Job, Task } from "../api/client";
import { isOver } from "../api/live";
import { ago, duration, rate } from "../format";
import { Fact } from "../parts/fact";
import { Notice } from "../parts/notice";
import { counts } from "./job-layers";

export function Facts({ job }: { job: Job }) {
  const { trials, seconds } = job.budget;
  const budget = [trials && `${trials} trials`, seconds && duration(seconds)].filter(Boolean).join(", ");
  const facts: [string, string][] = [
    ["Target", job.target],
    ["Threads", String(job.threads)],
    ["Numerics", job.numerics],
    ["Strategy", job.strategy],
    ["Budget", budget || "none"],
    ...(job.deadline ? [["Deadline", new Date(job.deadline).toLocaleString()] as [string, string]] : []),
    ["Seed", String(job.seed)],
    ["Priority", String(job.priority)],
    ["Board tags", job.tags.join(", ") || "any board"],
    ["Peak, float32", rate(job.peak_gflops, "FLOP")],
    ["Model", job.model_name ?? "one workload"],
    [
      "Submitted",
      `${new Date(job.created).toLocaleString()}, ${ago(job.created)}${job.submitter && `, by ${job.submitter}`}`,
    ],
    ["Version", job.version || "not kept"],
  ];
  return (
    <Group component="dl" gap="lg" m={0} aria-label="What the job is">
      {facts.map(([name, value]) => (
        <Fact key={name} name={name} value={value} />
      ))}
    </Group>
  );
}

/** Says what a job that runs without an estimate is waiting for; of others nothing. */
export function Starting({ job, tasks }: { job: Job; tasks: Task[] | undefined }) {
  if (isOver(job) || job.waiting || job.estimated_ms !== null || !tasks?.length) return null;
  const layers = tasks.filter(counts);
  const measured = layers.filter((task) => task.best_s !== null).length;
  return (
    <Notice kind="info" title={job.trials ? "No estimate yet" : "The first candidates are being built"}>
      {measured} of {layers.length} distinct layers have a time. The whole model's estimate comes with the
      last of them.
    </Notice>
  );
}
