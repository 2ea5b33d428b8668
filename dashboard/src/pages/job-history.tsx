/** The same model on the same target over time: a regression is seen at a glance. */
import { Anchor, Text, useComputedColorScheme } from "@mantine/core";
import { useMemo } from "react";
import { Link, useLocation } from "wouter";

import type { Job } from "../api/client";
import { useHistory } from "../api/job-queries";
import { isOver } from "../api/live";
import { digits, milliseconds, percent } from "../format";
import { Chart } from "../parts/chart";
import { lines } from "../parts/chart-colours";
import { Notice } from "../parts/notice";
import { Section } from "../parts/section";
import { nameOf } from "../parts/job-names";

export type Timed = { ms: number; noise: number; delivered: boolean };

/** Whether times of two jobs of one model compare but for where they were measured. */
export const alike = (one: Job, other: Job) =>
  other.threads === one.threads &&
  JSON.stringify(other.shapes) === JSON.stringify(one.shapes) &&
  other.numerics === one.numerics &&
  isOver(other);

/** What a job's model takes, and how much of that is noise: as delivered, else as estimated. */
export function timeOf(job: Job): Timed | null {
  const { built, estimated_ms } = job;
  if (built?.measured_ms) return { ms: built.measured_ms, noise: (built.spread ?? 0) / 2, delivered: true };
  return estimated_ms === null ? null : { ms: estimated_ms, noise: 0, delivered: false };
}

type Past = { job: Job; ms: number; noise: number };

/** Jobs whose times compare with this one's, the oldest first: delivered ones where it was delivered. */
function pastOf(job: Job, all: Job[]): Past[] {
  const own = timeOf(job);
  return all
    .filter((other) => other.clock === job.clock && alike(job, other))
    .flatMap((other) => {
      const time = timeOf(other);
      return time && (own === null || time.delivered === own.delivered) ? [{ job: other, ...time }] : [];
    })
    .reverse();
}

/** Whether it is slower than the best one before it, by more than both scatter. */
export function regressionOf(job: Job, past: Past[]): { best: Past; ratio: number; noise: number } | null {
  const at = past.findIndex((each) => each.job.id === job.id);
  const before = past.slice(0, at);
  if (at < 1 || before.length === 0) return null;
  const own = past[at]!;
  const best = before.reduce((one, other) => (other.ms < one.ms ? other : one));
  const ratio = own.ms / best.ms;
  const noise = Math.max(0.01, own.noise + best.noise);
  return ratio > 1 + noise ? { best, ratio, noise } : null;
}

export function History({ job }: { job: Job }) {
  const history = useHistory(job);
  const scheme = useComputedColorScheme();
  const [, go] = useLocation();
  const past = useMemo(() => pastOf(job, history.data?.items ?? []), [job, history.data]);
  const option = useMemo(() => historyOf(job, past, lines(scheme)), [job, past, scheme]);
  if (past.length < 2) return null;
  const worse = regressionOf(job, past);
  const delivered = timeOf(job)?.delivered;
  return (
    <Section title={`${job.model_name} on ${job.target} over time`}>
      {worse && (
        <Notice kind="warning" title={`${digits((worse.ratio - 1) * 100)} % slower than it was`}>
          Job {nameOf(worse.best.job)} had {milliseconds(worse.best.ms)}
          {worse.best.job.version && ` with version ${worse.best.job.version}`}, this one has{" "}
          {milliseconds(worse.ratio * worse.best.ms)}: more than the noise of both, {percent(worse.noise)}.{" "}
          <Anchor component={Link} href={`/compare?jobs=${worse.best.job.id},${job.id}`} size="sm">
            Compare the two
          </Anchor>
        </Notice>
      )}
      <Chart
        height={220}
        option={option}
        label={`${delivered ? "Measured" : "Estimated"} time of ${job.model_name} on ${job.target} in ${past.length} jobs, the last ${milliseconds(past.at(-1)!.ms)}`}
        figures={() => ({
          head: ["job", "name", "version", "finished", "ms", "noise"],
          rows: past.map(({ job: each, ms, noise }) => [
            each.id,
            each.name,
            each.version,
            each.finished ?? each.created,
            ms,
            noise,
          ]),
        })}
        onPick={({ dataIndex }) => past[dataIndex] && go(`/jobs/${past[dataIndex].job.id}`)}
      />
      <Text size="sm" c="dimmed">
        {delivered
          ? "Delivered models, as measured; bars are their scatter."
          : "Estimates, as none was delivered."}{" "}
        With {job.threads} thread{job.threads > 1 ? "s" : ""}, {job.numerics}. A click leads to the job.
      </Text>
    </Section>
  );
}

/** The numbers of the jobs; under the first of each day, the day. */
function namesOf(past: Past[]): string[] {
  const days = past.map(({ job: { finished, created } }) =>
    new Date(finished ?? created).toLocaleDateString(undefined, { month: "short", day: "numeric" }),
  );
  return past.map(({ job: { id } }, at) => (days[at] === days[at - 1] ? `${id}` : `${id}\n${days[at]}`));
}

function historyOf(job: Job, past: Past[], palette: string[]) {
  const versions = past.map(({ job: { version } }, at) =>
    at && version !== past[at - 1]!.job.version ? version : "",
  );
  return {
    grid: { left: 64, right: 24, top: 24, bottom: 52 },
    tooltip: {
      trigger: "axis",
      formatter: (found: { dataIndex: number }[]) => {
        const { job: each, ms, noise } = past[found[0]!.dataIndex]!;
        const when = new Date(each.finished ?? each.created).toLocaleString();
        const version = each.version ? `, version ${each.version}` : "";
        return `job ${nameOf(each)}\n${milliseconds(ms)} ± ${percent(noise)}\n${when}${version}`;
      },
    },
    xAxis: {
      type: "category",
      name: "job",
      nameLocation: "middle",
      nameGap: 36,
      axisLabel: { lineHeight: 14 }, // a line each for job and day
      data: namesOf(past),
    },
    yAxis: { type: "value", scale: true, axisLabel: { formatter: milliseconds } },
    series: [
      {
        type: "line",
        name: "ms",
        color: palette[0],
        data: past.map(({ job: each, ms }) => ({
          value: ms,
          symbol: "circle",
          symbolSize: each.id === job.id ? 12 : 7,
        })),
        markLine: {
          symbol: "none",
          lineStyle: { type: "dotted" },
          data: versions.flatMap((version, at) =>
            version ? [{ xAxis: at, label: { formatter: version, position: "insideEndTop" } }] : [],
          ),
        },
      },
      // Where the scatter begins and ends; short lines from one to the other.
      ...past.map(({ ms, noise }, at) => ({
        type: "line",
        silent: true,
        symbol: "rect",
        symbolSize: [9, 2],
        color: palette[0],
        tooltip: { show: false },
        data: [
          [at, ms * (1 - noise)],
          [at, ms * (1 + noise)],
        ],
      })),
    ],
  };
}
