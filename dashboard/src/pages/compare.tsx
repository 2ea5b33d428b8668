/** Jobs and builds side by side: what they are, how they got faster, and layer by layer what the difference is. */
import {
  Anchor,
  Button,
  FileButton,
  Group,
  Select,
  Stack,
  Text,
  Title,
  useComputedColorScheme,
} from "@mantine/core";
import { useDebouncedValue, useSessionStorage } from "@mantine/hooks";
import { useEffect, useMemo, useState } from "react";
import { Link, useSearchParams } from "wouter";

import { useCompared, useJobList } from "../api/job-queries";
import { lines } from "../parts/chart-colours";
import { ClockMark } from "../parts/clock";
import { nameOf } from "../parts/job-names";
import { Empty, Failure, Loading } from "../parts/states";
import { useTitle } from "../tab";
import type { Build } from "./build-file";
import { anchorOf, buildsOf, idOf, readBuilds, sideOfBuild } from "./build-file";
import { Curves } from "./compare-curves";
import type { Shown } from "./compare-facts";
import { Facts, OtherClocks } from "./compare-facts";
import { CompareLayers } from "./compare-layers";
import { sideOf } from "./compare-side";
import { Targets } from "./compare-targets";
import { Dot } from "./job-charts";
import { History } from "./job-history";

const MOST = 8;

export default function Compare() {
  const [params, setParams] = useSearchParams();
  const ids = useMemo(
    () =>
      [...new Set((params.get("jobs") ?? "").split(",").map(Number))].filter((id) => id > 0).slice(0, MOST),
    [params],
  );
  const scheme = useComputedColorScheme();
  const asked = useCompared(ids);
  useTitle(ids.length ? `Compare ${ids.join(", ")}` : "Compare");
  const set = (next: number[]) => setParams(next.length ? { jobs: next.join(",") } : {});
  const error = asked
    .map(({ job, tasks, progress }) => job.error ?? tasks.error ?? progress.error)
    .find(Boolean);
  const answered = asked
    .map((each) => [each.job, each.tasks, each.progress].map((q) => q.dataUpdatedAt))
    .join();
  const [builds, setBuilds] = useBuilds(params);
  const room = MOST - ids.length;
  const jobs = useMemo(
    () =>
      asked.flatMap(({ job, tasks, progress }, at) =>
        job.data && tasks.data && progress.data
          ? [
              {
                job: job.data,
                side: sideOf(job.data, tasks.data.items),
                points: progress.data.points,
                colour: lines(scheme)[at]!,
              },
            ]
          : [],
      ),
    // What was asked is a new list at each drawing; charts are drawn anew only for new answers.
    // eslint-disable-next-line react-hooks/exhaustive-deps
    [ids, answered, scheme],
  );
  const sides: Shown[] = useMemo(
    () => [
      ...jobs.map(({ side, colour }) => ({ ...side, colour })),
      ...builds
        .slice(0, room)
        .map((build, at) => ({ ...sideOfBuild(build), colour: lines(scheme)[ids.length + at]! })),
    ],
    [jobs, builds, room, ids, scheme],
  );
  const [first, last] = [jobs[0], jobs.at(-1)];
  return (
    <Stack gap="md">
      <Title order={2} size="h3">
        Compare
      </Title>
      <Chooser sides={sides} ids={ids} set={set} builds={builds} setBuilds={setBuilds} />
      {builds.length > Math.max(room, 0) && (
        <Text size="sm">
          {builds.length - Math.max(room, 0)} more do not fit: {MOST} are shown side by side.
        </Text>
      )}
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
          <OtherClocks sides={sides} />
          <Facts sides={sides} />
          <Curves jobs={jobs} />
          {sides.length > 1 && <CompareLayers sides={sides} />}
          {first && <Targets job={first.job} set={set} />}
          {last && <History job={last.job} />}
        </>
      )}
    </Stack>
  );
}

/** The builds that this tab was given. The address has them too, so that a link takes them along; one that has some
 * comes before what the tab remembers. */
function useBuilds(params: URLSearchParams): [Build[], (builds: Build[]) => void] {
  const [builds, setBuilds] = useSessionStorage<Build[]>({ key: "tilefleet-builds", defaultValue: [] });
  const [read, setRead] = useState(false);
  useEffect(() => {
    void buildsOf(window.location.hash).then((given) => {
      if (given) setBuilds(given);
      setRead(true);
    });
  }, [setBuilds]);
  useEffect(() => {
    if (!read) return;
    let over = false;
    void anchorOf(builds).then((anchor) => {
      const { pathname, search } = window.location;
      if (!over) window.history.replaceState(window.history.state, "", `${pathname}${search}${anchor}`);
    });
    return () => {
      over = true;
    };
    // Whatever changes the address otherwise leaves its anchor out.
  }, [builds, read, params]);
  return [builds, setBuilds];
}

function Chooser({
  sides,
  ids,
  set,
  builds,
  setBuilds,
}: {
  sides: Shown[];
  ids: number[];
  set: (ids: number[]) => void;
  builds: Build[];
  setBuilds: (builds: Build[]) => void;
}) {
  const [refused, setRefused] = useState<Error | null>(null);
  const add = async (files: File[]) => {
    try {
      const read = await Promise.all(files.map(async (file) => readBuilds(file.name, await file.text())));
      const names = files.map(({ name }) => name);
      setBuilds([...builds.filter(({ name }) => !names.includes(name)), ...read.flat()]);
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
      {sides.map(({ id, href, title, said, target, clock, colour }) => (
        <Group key={id} gap={6} wrap="nowrap">
          <Dot colour={colour} />
          {href ? (
            <Anchor component={Link} href={href} size="sm">
              {title}
            </Anchor>
          ) : (
            <Text size="sm">{title}</Text>
          )}
          <Text size="sm">on {target}</Text>
          {clock !== null && <ClockMark clock={clock} />}
          <Button
            size="compact-xs"
            variant="default"
            aria-label={`Without ${said}`}
            onClick={() =>
              href
                ? set(ids.filter((job) => href !== `/jobs/${job}`))
                : setBuilds(builds.filter((build) => idOf(build) !== id))
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
      {sides.length < MOST && (
        <FileButton multiple accept=".json,application/json" onChange={(files) => void add(files)}>
          {(props) => (
            <Button size="compact-sm" variant="default" {...props}>
              Add a build…
            </Button>
          )}
        </FileButton>
      )}
      {sides.length < MOST && (
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
