/** How jobs got faster: their curves over each other, each with what was delivered at its end; a chart for each
 * clock, as two have no axis in common. */
import { Text } from "@mantine/core";
import { Fragment, useMemo } from "react";

import type { Job, Point } from "../api/client";
import { milliseconds } from "../format";
import { Chart } from "../parts/chart";
import { nameOf } from "../parts/job-names";
import { Section } from "../parts/section";

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
        Lines are estimates, diamonds delivered models as they were measured, with their scatter.
      </Text>
    </Section>
  );
}

function OfClock({ jobs }: { jobs: Curve[] }) {
  const option = useMemo(
    () => ({
      grid: { left: 64, right: 24, top: 40, bottom: 40 },
      legend: { type: "scroll", top: 0, left: 0, right: 40 },
      tooltip: { trigger: "item", formatter: tooltipOf },
      xAxis: { type: "value", name: "trial", nameLocation: "middle", nameGap: 24 },
      yAxis: { type: "value", scale: true, axisLabel: { formatter: milliseconds, showMaxLabel: false } },
      series: jobs.flatMap(({ job, points, colour }) => {
        const last = job.trials || points.at(-1)?.trial || 0;
        const { measured_ms, spread } = job.built ?? {};
        const name = `job ${nameOf(job)}`;
        return [
          {
            type: "line",
            step: "end",
            symbolSize: 4,
            name,
            color: colour,
            data: points.map(({ trial, estimated_ms }) => [trial, estimated_ms]),
          },
          // What was delivered stands at the end, with its scatter.
          ...(measured_ms
            ? [
                {
                  type: "line",
                  name,
                  color: colour,
                  symbol: "diamond",
                  symbolSize: 11,
                  lineStyle: { width: 2 },
                  data: [-1, 0, 1].map((side) => ({
                    value: [last, measured_ms * (1 + (side * (spread ?? 0)) / 2)],
                    ...(side && { symbol: "rect", symbolSize: [12, 2] }),
                  })),
                },
              ]
            : []),
        ];
      }),
    }),
    [jobs],
  );
  return (
    <Chart
      option={option}
      label={`Estimated time of the whole model over trials of ${jobs.map(({ job }) => `job ${nameOf(job)}`).join(", ")}`}
    />
  );
}

function tooltipOf({ seriesName, value }: { seriesName: string; value: [number, number] }): string {
  return `${seriesName}\n${milliseconds(value[1])} at trial ${value[0]}`;
}
