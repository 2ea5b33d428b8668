/** All jobs: found by words and filters, sorted, chosen to be compared, named and deleted. */
import {
  ActionIcon,
  Anchor,
  Button,
  Checkbox,
  Group,
  Progress,
  Stack,
  Switch,
  Table,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { useState } from "react";
import { Link } from "wouter";

import type { Job, JobQuery } from "../api/client";
import { useChosen, useJobList, useLabels, useModels } from "../api/job-queries";
import { OVER, isOver } from "../api/live";
import { useTargets } from "../api/queries";
import { ago, duration, measured, milliseconds } from "../format";
import { useNoticesWanted } from "../notices";
import { StateBadge } from "../parts/badges";
import { ClockMark } from "../parts/clock";
import { Delete, Labels, Rename } from "../parts/job-dialogs";
import { gainOf, shareDone, waitsAs } from "../parts/job-names";
import { Choice } from "../parts/section";
import { SortHead } from "../parts/sortable";
import { Empty, Loaded } from "../parts/states";
import type { Column } from "../parts/table";
import { DataTable } from "../parts/table";
import { useAddress, useTyped } from "../parts/url-state";
import { useTitle } from "../tab";

const PAGE = 50;
const UNDER_WAY = ["queued", "running", "cancelling"];
type Order = NonNullable<JobQuery["sort"]>;

/** What the address asks for: a view can be shared, and the browser's back leads to the one before. */
function useWanted() {
  const [params, change] = useAddress("push");
  // Another order or filter has another first page.
  const set = (changes: Record<string, string | null>) => change({ after: null, ...changes });
  const get = (name: string) => params.get(name);
  const state = get("state");
  const query: JobQuery = {
    limit: PAGE,
    sort: (get("sort") ?? "id") as Order,
    order: get("order") === "up" ? "up" : "down",
    ...(state && { state: (state === "under way" ? UNDER_WAY : [state]) as NonNullable<JobQuery["state"]> }),
    ...(get("target") && { target: get("target")! }),
    ...(get("model") && { model: get("model")! }),
    ...(get("label") && { label: [get("label")!] }),
    ...(get("search") && { search: get("search")! }),
    ...(get("after") && { after: Number(get("after")) }),
  };
  const filtered = ["state", "target", "model", "label", "search"].some((name) => params.has(name));
  return { query, get, set, filtered };
}

export default function Jobs() {
  const wanted = useWanted();
  const jobs = useJobList(wanted.query);
  const [chosen, over, choose] = useChosen();
  const [deleting, setDeleting] = useState<number[]>([]);
  const running = jobs.data?.items.filter((job) => !isOver(job)).length ?? 0;
  useTitle(`${running ? `${running} running · ` : ""}Jobs`, running ? "#0c8599" : undefined);
  return (
    <Stack gap="sm">
      <Group justify="space-between">
        <Title order={2} size="h3">
          Jobs
        </Title>
        <TellMe />
      </Group>
      <Filters wanted={wanted} />
      <Group gap="xs" mih={30}>
        <Text size="sm" c="dimmed" role="status">
          {jobs.data ? `${jobs.data.total} job${jobs.data.total === 1 ? "" : "s"}` : ""}
          {chosen.length > 0 && `, ${chosen.length} chosen`}
        </Text>
        {chosen.length > 0 && (
          <>
            <Button component={Link} href={`/compare?jobs=${chosen.join(",")}`} size="compact-sm">
              Compare
            </Button>
            <Button
              size="compact-sm"
              variant="light"
              color="red"
              disabled={!over}
              onClick={() => setDeleting(chosen)}
            >
              Delete…
            </Button>
            <Button size="compact-sm" variant="default" onClick={() => choose([], [])}>
              Choose none
            </Button>
          </>
        )}
      </Group>
      <Loaded query={jobs}>
        {({ items, next }) =>
          items.length === 0 ? (
            <Nothing filtered={wanted.filtered} />
          ) : (
            <>
              <JobTable jobs={items} wanted={wanted} chosen={chosen} choose={choose} onDelete={setDeleting} />
              <Group justify="center">
                {wanted.query.after !== undefined && (
                  <Button variant="default" size="compact-sm" onClick={() => wanted.set({})}>
                    First page
                  </Button>
                )}
                {next && (
                  <Button variant="default" size="compact-sm" onClick={() => wanted.set({ after: next })}>
                    Next {PAGE}
                  </Button>
                )}
              </Group>
            </>
          )
        }
      </Loaded>
      {deleting.length > 0 && (
        <Delete
          jobs={deleting}
          onClose={() => setDeleting([])}
          onDone={() => {
            choose(
              chosen.filter((id) => !deleting.includes(id)),
              [],
            );
            setDeleting([]);
          }}
        />
      )}
    </Stack>
  );
}

export function TellMe() {
  const notices = useNoticesWanted();
  const [refused, setRefused] = useState(false);
  if (!notices.possible) return null;
  return (
    <Switch
      label={refused ? "The browser does not allow notifications" : "Tell me when a job ends"}
      checked={notices.wanted}
      onChange={(event) =>
        void notices.ask(event.currentTarget.checked).then((leave) => setRefused(leave !== "granted"))
      }
    />
  );
}

const ANY = "any";

function Filters({ wanted }: { wanted: ReturnType<typeof useWanted> }) {
  const targets = useTargets();
  const models = useModels();
  const labels = useLabels();
  const [words, setWords] = useTyped("search", wanted.set);
  const filters: [string, string, string[]][] = [
    ["state", "State", ["under way", ...OVER]],
    ["target", "Target", (targets.data?.items ?? []).map(({ name }) => name)],
    ["model", "Model", (models.data?.items ?? []).map(({ name }) => name)],
    ["label", "Label", (labels.data?.items ?? []).map(({ label }) => label)],
  ];
  return (
    <Group gap="xs" role="search">
      <TextInput
        size="xs"
        w={220}
        type="search"
        aria-label="Search jobs"
        placeholder="Search names, labels, models …"
        value={words}
        onChange={(event) => setWords(event.currentTarget.value)}
      />
      {filters.map(([name, label, values]) => (
        <Choice
          key={name}
          w={150}
          aria-label={label}
          searchable={values.length > 8}
          data={[
            { value: ANY, label: `any ${label.toLowerCase()}` },
            ...new Set([...values, wanted.get(name) ?? ""]),
          ].filter(Boolean)}
          value={wanted.get(name) ?? ANY}
          onChange={(value) => wanted.set({ [name]: value === ANY ? null : value })}
        />
      ))}
      {wanted.filtered && (
        <Button
          size="compact-sm"
          variant="subtle"
          onClick={() => {
            setWords("");
            wanted.set({ search: null, state: null, target: null, model: null, label: null });
          }}
        >
          All jobs
        </Button>
      )}
    </Group>
  );
}

function Nothing({ filtered }: { filtered: boolean }) {
  if (filtered) return <Empty title="No such job">Nothing has all that is asked for.</Empty>;
  return (
    <Empty title="No job yet">
      <Anchor component={Link} href="/submit">
        Submit a model
      </Anchor>
      , or type <code>tilefleet submit model.onnx --target host --seconds 120</code>.
    </Empty>
  );
}

const SORTS: Record<string, Order> = {
  Job: "id",
  Name: "name",
  Model: "model",
  Target: "target",
  State: "state",
  Took: "elapsed",
  Ended: "finished",
};

function JobTable({
  jobs,
  wanted,
  chosen,
  choose,
  onDelete,
}: {
  jobs: Job[];
  wanted: ReturnType<typeof useWanted>;
  chosen: number[];
  choose: (ids: number[], of: Job[]) => void;
  onDelete: (ids: number[]) => void;
}) {
  const [renaming, setRenaming] = useState<Job | null>(null);
  const isChosen = (job: Job) => chosen.includes(job.id);
  const all = jobs.every(isChosen);
  // What was chosen on other pages stays so.
  const without = (some: Job[]) => chosen.filter((id) => !some.some((job) => job.id === id));
  const toggle = (some: Job[], on: boolean) =>
    choose(on ? [...without(some), ...some.map(({ id }) => id)] : without(some), some);
  const columns: Column<Job>[] = [
    {
      head: "",
      cell: (job) => (
        <Checkbox
          size="xs"
          aria-label={`Choose job ${job.id}`}
          checked={isChosen(job)}
          onChange={() => toggle([job], !isChosen(job))}
        />
      ),
    },
    {
      head: "Job",
      cell: (job) => (
        <Anchor component={Link} href={`/jobs/${job.id}`} size="sm" fw={600}>
          {job.id}
        </Anchor>
      ),
    },
    {
      head: "Name",
      cell: (job) => (
        <Group gap={6}>
          {job.name && <Text size="sm">{job.name}</Text>}
          <Labels job={job} />
        </Group>
      ),
    },
    { head: "Model", cell: (job) => <Text size="sm">{job.model_name ?? "one workload"}</Text> },
    {
      head: "Target",
      cell: (job) => (
        <>
          {job.target} <ClockMark clock={job.clock} />
        </>
      ),
    },
    { head: "State", cell: (job) => <State job={job} /> },
    { head: "Trials", cell: (job) => job.trials },
    { head: "Model takes", cell: (job) => <Taken job={job} /> },
    { head: "Gain", cell: gainOf },
    { head: "Took", cell: (job) => <Text size="sm">{unbroken(duration(job.elapsed_s))}</Text> },
    {
      head: "Ended",
      cell: (job) => (
        <Text size="sm" {...(job.finished && { title: new Date(job.finished).toLocaleString() })}>
          {job.finished ? unbroken(ago(job.finished)) : "–"}
        </Text>
      ),
    },
    {
      head: "Submitted",
      cell: (job) => (
        <Text size="sm" title={new Date(job.created).toLocaleString()}>
          {unbroken(ago(job.created))}
          {job.submitter && ` by ${job.submitter}`}
        </Text>
      ),
    },
    {
      head: "Change",
      cell: (job) => (
        <Group gap={4} wrap="nowrap">
          <ActionIcon
            variant="default"
            size="sm"
            aria-label={`Name and labels of job ${job.id}`}
            title="Name and labels"
            onClick={() => setRenaming(job)}
          >
            ✎
          </ActionIcon>
          <ActionIcon
            variant="default"
            size="sm"
            aria-label={`Delete job ${job.id}`}
            title={isOver(job) ? "Delete" : "It can be deleted when it has ended"}
            disabled={!isOver(job)}
            onClick={() => onDelete([job.id])}
          >
            ✕
          </ActionIcon>
        </Group>
      ),
    },
  ];
  return (
    <>
      <DataTable
        label="Jobs"
        minWidth={1010}
        rows={jobs}
        keyOf={(job) => job.id}
        columns={columns}
        headOf={({ head }) => {
          if (head === "")
            return (
              <Table.Th key={head}>
                <Checkbox
                  size="xs"
                  aria-label="Choose all of this page"
                  checked={all}
                  indeterminate={!all && jobs.some(isChosen)}
                  onChange={() => toggle(jobs, !all)}
                />
              </Table.Th>
            );
          const sort = SORTS[head];
          if (!sort) return <Table.Th key={head}>{head}</Table.Th>;
          const by = wanted.query.sort === sort;
          const down = wanted.query.order === "down";
          return (
            <SortHead
              key={head}
              head={head}
              down={by ? down : null}
              onSort={() => wanted.set({ sort, order: by && down ? "up" : "down" })}
              miw={head === "Name" ? 110 : undefined}
            />
          );
        }}
      />
      {renaming && <Rename job={renaming} onClose={() => setRenaming(null)} />}
    </>
  );
}

function State({ job }: { job: Job }) {
  return (
    <>
      <StateBadge state={job.state} />
      {job.waiting && job.state === "queued" && (
        <Text size="xs" maw={260}>
          {waitsAs(job, job.waiting)}: {job.waiting.reason}
        </Text>
      )}
      {!isOver(job) && (
        <Progress value={shareDone(job) * 100} size="sm" mt={2} aria-label={`Progress of job ${job.id}`} />
      )}
    </>
  );
}

/** As it was delivered, else what it is estimated to take. */
function Taken({ job }: { job: Job }) {
  if (job.built?.measured_ms) return <Text size="sm">{unbroken(measured(job))}</Text>;
  if (job.estimated_ms === null) return "–";
  return (
    <Text size="sm" c="dimmed" title="Estimated: it was not built and measured">
      ~ {milliseconds(job.estimated_ms)}
    </Text>
  );
}

const unbroken = (text: string) => text.replaceAll(" ", "\u00a0");
