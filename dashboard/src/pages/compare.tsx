/** Jobs and builds side by side: what they are, how they got faster, and layer by layer what the difference is. */
import {
  Anchor,
  Button,
  FileButton,
  Group,
  Select,
  Stack,
  Switch,
  Table,
  Text,
  Title,
  useComputedColorScheme,
} from "@mantine/core";
import { useDebouncedValue, useSessionStorage } from "@mantine/hooks";
import { useMemo, useState } from "react";
import { Link, useSearchParams } from "wouter";

import type { Job, Point, Task } from "../api/client";
import { useCompared, useJobList } from "../api/job-queries";
import { duration, measured, milliseconds } from "../format";
import { StateBadge } from "../parts/badges";
import { Chart } from "../parts/chart";
import { lines } from "../parts/chart-colours";
import { ClockMark } from "../parts/clock";
import { Section } from "../parts/section";
import { Empty, Failure, Loading } from "../parts/states";
import { useTitle } from "../tab";
import type { Build } from "./build-file";
import { jobOf, readBuild, tasksOf } from "./build-file";
import { CompareLayers } from "./compare-layers";
import { Targets } from "./compare-targets";
import { Dot } from "./job-charts";
import { History, timeOf } from "./job-history";
import { gainOf, nameOf } from "../parts/job-names";

const MOST = 8;

/** A job, or a build of the command line as one: `title` is what it is called, `head` that in short. */
export type Compared = {
  job: Job;
  tasks: Task[];
  points: Point[];
  colour: string;
  title: string;
  head: string;
  build: boolean;
};

export default function Compare() {
  const [params, setParams] = useSearchParams();
  const ids = useMemo(
    () =>
      [...new Set((params.get("jobs") ?? "").split(",").map(Number))].filter((id) => id > 0).slice(0, MOST),
    [params],
  );
  const scheme = useComputedColorScheme();
  const asked = useCompared(ids);
  useTitle(`${ids.length ? `Compare ${ids.join(", ")}` : "Compare"} · Tilefleet`, "#868e96");
  const set = (next: number[]) => setParams(next.length ? { jobs: next.join(",") } : {});
  const error = asked
    .map(({ job, tasks, progress }) => job.error ?? tasks.error ?? progress.error)
    .find(Boolean);
  const answered = asked
    .map((each) => [each.job, each.tasks, each.progress].map((q) => q.dataUpdatedAt))
    .join();
  const [builds, setBuilds] = useSessionStorage<Build[]>({ key: "tilefleet-builds", defaultValue: [] });
  const room = MOST - ids.length;
  const jobs: Compared[] = useMemo(
    () =>
      asked.flatMap(({ job, tasks, progress }, at) =>
        job.data && tasks.data && progress.data
          ? [
              {
                job: job.data,
                tasks: tasks.data.items,
                points: progress.data.points,
                colour: lines(scheme)[at]!,
                title: nameOf(job.data),
                head: `Job ${job.data.id}`,
                build: false,
              },
            ]
          : [],
      ),
    // What was asked is a new list at each drawing; charts are drawn anew only for new answers.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [ids, answered, scheme],
  );
  const found: Compared[] = useMemo(
    () => [
      ...jobs,
      ...builds.slice(0, room).map((build, at) => ({
        job: jobOf(build, -1 - at),
        tasks: tasksOf(build),
        points: [],
        colour: lines(scheme)[ids.length + at]!,
        title: build.name,
        head: build.name,
        build: true,
      })),
    ],
    [jobs, builds, room, ids, scheme],
  );
  const [first, last] = [jobs[0], jobs.at(-1)];
  return (
    <Stack gap="md">
      <Title order={2} size="h3">
        Compare
      </Title>
      <Chooser jobs={found} ids={ids} set={set} builds={builds} setBuilds={setBuilds} />
      {error && <Failure error={error} />}
      {ids.length === 0 && builds.length === 0 ? (
        <Empty title="Nothing is compared yet">
          Choose jobs here, or mark some on{" "}
          <Anchor component={Link} href="/jobs">
            Jobs
          </Anchor>
          . The first is what the others are held against. Of a build of the command line, add the JSON file
          that <code>tilefleet build</code> writes beside the module.
        </Empty>
      ) : jobs.length < ids.length ? (
        !error && <Loading />
      ) : (
        <>
          <Facts jobs={found} />
          <Curves jobs={jobs} />
          {found.length > 1 && <CompareLayers jobs={found} />}
          {first && <Targets job={first.job} set={set} />}
          {last && <History job={last.job} />}
        </>
      )}
    </Stack>
  );
}

function Chooser({
  jobs,
  ids,
  set,
  builds,
  setBuilds,
}: {
  jobs: Compared[];
  ids: number[];
  set: (ids: number[]) => void;
  builds: Build[];
  setBuilds: (builds: Build[]) => void;
}) {
  const [refused, setRefused] = useState<Error | null>(null);
  const add = async (files: File[]) => {
    try {
      const read = await Promise.all(files.map(async (file) => readBuild(file.name, await file.text())));
      const names = read.map(({ name }) => name);
      setBuilds([...builds.filter(({ name }) => !names.includes(name)), ...read]);
      setRefused(null);
    } catch (error) {
      setRefused(error as Error);
    }
  };
  const [words, setWords] = useState("");
  const [search] = useDebouncedValue(words, 250);
  // What was chosen stands in the field until it is emptied: that is nothing to search by.
  const offered = useJobList({ limit: 50, ...(search && !search.includes("·") && { search }) });
  return (
    <Group gap="xs">
      {jobs.map(({ job, colour, title, build }) => (
        <Group key={job.id} gap={6} wrap="nowrap">
          <Dot colour={colour} />
          {build ? (
            <Text size="sm">{title}</Text>
          ) : (
            <Anchor component={Link} href={`/jobs/${job.id}`} size="sm">
              {title}
            </Anchor>
          )}
          <Text size="sm">on {job.target}</Text>
          {!build && <ClockMark clock={job.clock} />}
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`Without ${build ? title : `job ${job.id}`}`}
            onClick={() =>
              build
                ? setBuilds(builds.filter(({ name }) => name !== title))
                : set(ids.filter((id) => id !== job.id))
            }
          >
            ✕
          </Button>
        </Group>
      ))}
      {ids.length > 1 && (
        <Button size="compact-sm" variant="default" onClick={() => set([...ids.slice(1), ids[0]!])}>
          Another first
        </Button>
      )}
      {jobs.length < MOST && (
        <FileButton multiple accept=".json,application/json" onChange={(files) => void add(files)}>
          {(props) => (
            <Button size="compact-sm" variant="default" {...props}>
              Add a build…
            </Button>
          )}
        </FileButton>
      )}
      {jobs.length < MOST && (
        <Select
          size="xs"
          w={300}
          searchable
          aria-label="Add a job"
          placeholder="Add a job: number, name, model …"
          nothingFoundMessage="No such job"
          filter={({ options }) => options}
          data={(offered.data?.items ?? [])
            .filter(({ id }) => !ids.includes(id))
            .map((job) => ({
              value: String(job.id),
              label: `${nameOf(job)} · ${job.target} · ${job.state}`,
            }))}
          value={null}
          searchValue={words}
          onSearchChange={setWords}
          onChange={(value) => {
            if (value) set([...ids, Number(value)]);
            setWords("");
          }}
        />
      )}
      {refused !== null && <Failure error={refused} />}
    </Group>
  );
}

/** `built`: a build says it as well. */
type Fact = { name: string; built?: true; of: (job: Job) => string; show?: (job: Job) => React.ReactNode };

const FACTS: Fact[] = [
  { name: "State", of: (job) => job.state, show: (job) => <StateBadge state={job.state} /> },
  { name: "Model", of: (job) => job.model_name ?? "one workload" },
  { name: "Target", built: true, of: (job) => job.target },
  { name: "Clock", of: (job) => job.clock },
  { name: "Threads", built: true, of: (job) => String(job.threads) },
  { name: "Numerics", of: (job) => job.numerics },
  { name: "Strategy", of: (job) => job.strategy },
  { name: "Seed", of: (job) => String(job.seed) },
  {
    name: "Budget",
    of: ({ budget: { trials, seconds } }) =>
      [trials && `${trials} trials`, seconds && duration(seconds)].filter(Boolean).join(", ") || "none",
  },
  { name: "Shapes", of: (job) => (job.shapes ? JSON.stringify(job.shapes) : "of the model") },
  { name: "Board tags", of: (job) => job.tags.join(", ") || "any board" },
  { name: "Labels", of: (job) => job.labels.join(", ") || "none" },
  { name: "Version", of: (job) => job.version || "not kept" },
  { name: "Submitted", of: (job) => new Date(job.created).toLocaleString() },
  { name: "Trials", of: (job) => `${job.trials}${job.reused ? `, ${job.reused} known before` : ""}` },
  { name: "Took", of: (job) => duration(job.elapsed_s) },
  { name: "Before tuning", of: (job) => milliseconds(job.recommended_ms) },
  { name: "Estimated", built: true, of: (job) => milliseconds(job.estimated_ms) },
  { name: "Delivered", of: measured },
  { name: "Gain by tuning", of: gainOf },
];

function Facts({ jobs }: { jobs: Compared[] }) {
  const [all, showAll] = useState(false);
  const known = (fact: Fact) => jobs.filter(({ build }) => fact.built || !build);
  const differs = (fact: Fact) => new Set(known(fact).map(({ job }) => fact.of(job))).size > 1;
  const shown = FACTS.filter((fact) => all || jobs.length === 1 || differs(fact));
  const first = timeOf(jobs[0]!.job);
  return (
    <Section
      title="What differs"
      beside={
        jobs.length > 1 && (
          <Switch
            ml="auto"
            size="xs"
            label="also what is the same"
            checked={all}
            onChange={(event) => showAll(event.currentTarget.checked)}
          />
        )
      }
    >
      <Table.ScrollContainer
        minWidth={200 + 160 * jobs.length}
        scrollAreaProps={{ viewportProps: { tabIndex: 0, role: "group", "aria-label": "What differs" } }}
      >
        <Table verticalSpacing={4}>
          <Table.Thead>
            <Table.Tr>
              <Table.Th w={140}>Fact</Table.Th>
              {jobs.map(({ job, colour, title }) => (
                <Table.Th key={job.id}>
                  <Dot colour={colour} /> {title}
                </Table.Th>
              ))}
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {shown.map((fact) => (
              <Table.Tr key={fact.name}>
                <Table.Th scope="row" fw={500}>
                  {fact.name}
                </Table.Th>
                {jobs.map(({ job, build }) => (
                  <Table.Td key={job.id} fw={jobs.length > 1 && differs(fact) ? 600 : 400}>
                    {build && !fact.built ? "–" : (fact.show?.(job) ?? fact.of(job))}
                  </Table.Td>
                ))}
              </Table.Tr>
            ))}
            {jobs.length > 1 && first && (
              <Table.Tr>
                <Table.Th scope="row" fw={500}>
                  Against the first
                </Table.Th>
                {jobs.map(({ job, build }, at) => (
                  <Table.Td key={job.id} fw={600}>
                    {/* A job's estimate has in it what its own build was seen to do: a build's has not. */}
                    {at === 0 || build !== jobs[0]!.build ? "–" : against(jobs[0]!.job, job)}
                  </Table.Td>
                ))}
              </Table.Tr>
            )}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Section>
  );
}

/** How many times as fast as the first, where that is more than the noise; like with like. */
function against(first: Job, other: Job): string {
  const [one, two] = [timeOf(first), timeOf(other)];
  if (!one || !two) return "–";
  if (one.delivered !== two.delivered) {
    if (!first.estimated_ms || !other.estimated_ms) return "–";
    return `${said(first.estimated_ms / other.estimated_ms, 0.01)}, estimated`;
  }
  return `${said(one.ms / two.ms, Math.max(0.01, one.noise + two.noise))}${one.delivered ? "" : ", estimated"}`;
}

/** 1.23 x as fast, or that there is no difference beyond the noise. */
export function said(ratio: number, noise: number): string {
  if (Math.abs(ratio - 1) <= noise) return "the same within the noise";
  return ratio > 1 ? `${ratio.toFixed(2)}\u00a0x as fast` : `${(1 / ratio).toFixed(2)}\u00a0x the time`;
}

function Curves({ jobs }: { jobs: Compared[] }) {
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
  if (jobs.every(({ points }) => points.length === 0)) return null;
  return (
    <Section title="Whole model over trials">
      <Chart
        option={option}
        label={`Estimated time of the whole model over trials of ${jobs.map(({ job }) => `job ${nameOf(job)}`).join(", ")}`}
      />
      <Text size="sm" c="dimmed">
        Lines are estimates, diamonds delivered models as they were measured, with their scatter.
      </Text>
    </Section>
  );
}

function tooltipOf({ seriesName, value }: { seriesName: string; value: [number, number] }): string {
  return `${seriesName}\n${milliseconds(value[1])} at trial ${value[0]}`;
}
