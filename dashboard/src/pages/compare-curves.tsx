/** How jobs got faster: their curves over each other, each with what was delivered at its end; a chart for each
 * clock, as two have no axis in common. */
import { Text } from "@mantine/core";
import { Fragment, useMemo } from "react";

import type { Job, Point } from "../api/client";
import { milliseconds } from "../format";
import { Chart } from "../parts/chart";
import type { Figures } from "../parts/chart-files";
import { nameOf } from "../parts/job-names";
import { Section } from "../parts/section";
import type { Seeds } from "./compare-seeds";
import { bySeeds } from "./compare-seeds";

export type Curve = { job: Job; points: Point[]; colour: string };

export function Curves({ jobs }: { jobs: Curve[] }) {
  const drawn = useMemo(() => {
    const clocks = [...new Set(jobs.map(({ job }) => job.clock))];
    return clocks.map((clock) => ({ clock, jobs: jobs.filter(({ job }) => job.clock === clock) }));
  }, [jobs]);
  if (jobs.every(({ points }) => points.length === 0)) return null;
  return (
    <Section title="Whole model over trials">
      {drawn.map(({ clock, jobs: alike }) => (
        <Fragment key={clock}>
          {drawn.length > 1 && (
            <Text size="sm" fw={600}>
              By the clock {clock}
            </Text>
          )}
          <OfClock jobs={alike} />
        </Fragment>
      ))}
      <Text size="sm" c="dimmed">
        Lines are estimates, diamonds delivered models as they were measured, with their scatter. Three or
        more jobs that differ by their seed alone are one line, their median, with a band that has the middle
        half of them.
      </Text>
    </Section>
  );
}

function OfClock({ jobs }: { jobs: Curve[] }) {
  const { groups, others } = useMemo(() => bySeeds(jobs), [jobs]);
  const option = useMemo(
    () => ({
      grid: { left: 64, right: 24, top: 40, bottom: 40 },
      legend: { type: "scroll", top: 0, left: 0, right: 40 },
      tooltip: { trigger: "item", formatter: tooltipOf },
      xAxis: { type: "value", name: "trial", nameLocation: "middle", nameGap: 24 },
      yAxis: { type: "value", scale: true, axisLabel: { formatter: milliseconds, showMaxLabel: false } },
      series: [
        ...groups.flatMap((group) => [
          ...bandOf(group),
          ...group.jobs.flatMap((each) => deliveredOf(each, group.name, group.jobs[0]!.colour)),
        ]),
        ...others.flatMap((each) => {
          const name = `job ${nameOf(each.job)}`;
          return [lineOf(each, name), ...deliveredOf(each, name, each.colour)];
        }),
      ],
    }),
    [groups, others],
  );
  const names = [...groups.map(({ name }) => name), ...others.map(({ job }) => `job ${nameOf(job)}`)];
  return (
    <Chart
      option={option}
      label={`Estimated time of the whole model over trials of ${names.join(", ")}`}
      figures={() => figuresOf(groups, others)}
    />
  );
}

function lineOf({ points, colour }: Curve, name: string) {
  const data = points.map(({ trial, estimated_ms }) => [trial, estimated_ms]);
  return { type: "line", step: "end", symbolSize: 4, name, color: colour, data };
}

/** The median, and below it what reaches from the lower to the upper quartile: two lines on top of each other. */
function bandOf({ name, jobs, band }: Seeds) {
  const color = jobs[0]!.colour;
  const edge = {
    type: "line",
    step: "end",
    symbol: "none",
    silent: true,
    stack: name,
    lineStyle: { opacity: 0 },
  };
  return [
    { ...edge, color, data: band.map(({ trial, low }) => [trial, low]) },
    {
      ...edge,
      color,
      areaStyle: { opacity: 0.2 },
      data: band.map(({ trial, low, high }) => [trial, high - low]),
    },
    {
      type: "line",
      step: "end",
      symbolSize: 4,
      name,
      color,
      data: band.map(({ trial, middle }) => [trial, middle]),
    },
  ];
}

/** What was delivered stands at the end, with its scatter. */
function deliveredOf({ job, points }: Curve, name: string, color: string) {
  const last = job.trials || points.at(-1)?.trial || 0;
  const { measured_ms, spread } = job.built ?? {};
  if (!measured_ms) return [];
  return [
    {
      type: "line",
      name,
      color,
      symbol: "diamond",
      symbolSize: 11,
      lineStyle: { width: 2 },
      data: [-1, 0, 1].map((side) => ({
        value: [last, measured_ms * (1 + (side * (spread ?? 0)) / 2)],
        ...(side && { symbol: "rect", symbolSize: [12, 2] }),
      })),
    },
  ];
}

function figuresOf(groups: Seeds[], others: Curve[]): Figures {
  return {
    head: ["series", "trial", "estimated_ms", "lower quartile", "upper quartile"],
    rows: [
      ...groups.flatMap(({ name, band }) =>
        band.map(({ trial, low, middle, high }) => [name, trial, middle, low, high]),
      ),
      ...others.flatMap(({ job, points }) =>
        points.map(({ trial, estimated_ms }) => [`job ${nameOf(job)}`, trial, estimated_ms]),
      ),
    ],
  };
}

function tooltipOf({ seriesName, value }: { seriesName: string; value: [number, number] }): string {
  return `${seriesName}\n${milliseconds(value[1])} at trial ${value[0]}`;
}
