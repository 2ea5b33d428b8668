/** The best configs of a model on a target, and the command that builds from them. */
import { Button, CopyButton, Group, Select, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";

import type { Job } from "../api/client";
import { jobOf, useAllJobs, useTasks } from "../api/queries";
import { measured, milliseconds, quoted, rate } from "../format";
import { ClockMark, Seconds } from "../parts/clock";
import { Empty, Failure, Loaded, Loading } from "../parts/states";
import { ConfigText, DataTable, WorkloadLink } from "../parts/table";
import { useAddress } from "../parts/url-state";
import { useTitle } from "../tab";

export default function Best() {
  useTitle("Best configs");
  const jobs = useAllJobs();
  return (
    <Stack>
      <Title order={2} size="h3">
        Best configs
      </Title>
      <Loaded query={jobs}>{({ items }) => <Choice jobs={items.filter((job) => job.trials > 0)} />}</Loaded>
    </Stack>
  );
}

function Choice({ jobs }: { jobs: Job[] }) {
  const [asked, change] = useAddress();
  const id = asked.get("job");
  const listed = id === null ? jobs[0] : jobs.find((each) => String(each.id) === id);
  // One that is asked for by its number may be older than the list, or not have a trial.
  const one = useQuery({ ...jobOf(Number(id)), enabled: id !== null && !listed });
  if (id === null && jobs.length === 0)
    return <Empty title="Nothing was tuned yet">The best configs of each job appear here.</Empty>;
  const job = listed ?? one.data;
  const offered = job && !listed ? [job, ...jobs] : jobs;
  return (
    <>
      <Select
        label="Model, target and job"
        maw={480}
        allowDeselect={false}
        searchable
        data={offered.map((each) => ({
          value: String(each.id),
          label: `${each.model_name ?? "one workload"}, ${each.target}, job ${each.id}`,
        }))}
        value={job ? String(job.id) : null}
        onChange={(job) => change({ job })}
      />
      {job ? <Configs job={job} /> : one.error ? <Failure error={one.error} /> : <Loading />}
    </>
  );
}

/** A set of shapes in one value, as `--shape` takes it. */
const textOf = (set: Record<string, number[]>) =>
  Object.entries(set)
    .map(([name, shape]) => `${name}=${shape.join()}`)
    .join(" ");

function Configs({ job }: { job: Job }) {
  const tasks = useTasks(job.id);
  const log = `job-${job.id}.jsonl`;
  const model = job.model_name ?? "model.onnx";
  const options = [
    ...["--log", log, "--target", job.target, "--threads", `${job.threads}`, "--numerics", job.numerics],
    ...[job.shapes ?? []]
      .flat()
      .map(textOf)
      .filter(Boolean)
      .flatMap((set) => ["--shape", set]),
    ...["-o", `${model.replace(/\.(onnx|tflite)$/, "")}.so`],
  ];
  const build = ["tilefleet", "build", ...options, "--", model].map(quoted).join(" ");
  const command = `tilefleet log ${job.id} -o ${log} && ${build}`;
  return (
    <>
      <Group>
        <Text>
          {measured(job)} built and measured
          {job.verdict ? `: ${job.verdict.text}` : `, ${milliseconds(job.estimated_ms)} estimated`}
        </Text>
        <ClockMark clock={job.clock} />
        {job.model && (
          <CopyButton value={command}>
            {({ copied, copy }) => (
              <Button size="compact-sm" variant="light" onClick={copy}>
                {copied ? "Copied" : "Copy the build command"}
              </Button>
            )}
          </CopyButton>
        )}
      </Group>
      <Loaded query={tasks}>
        {({ items }) => (
          <DataTable
            label="Best configs"
            minWidth={720}
            rows={items}
            keyOf={(task) => task.id}
            columns={[
              {
                head: "Workload",
                cell: (task) => <WorkloadLink workload={task.workload_key} text={task.text} at={job} />,
              },
              { head: "Times", cell: (task) => task.weight },
              {
                head: "Best",
                cell: (task) => <Seconds value={task.best_s} disturbed={task.best_disturbed} />,
              },
              { head: "Rate", cell: (task) => rate(task.gflops, task.unit) },
              { head: "Config", cell: (task) => <ConfigText value={task.best_config} /> },
            ]}
          />
        )}
      </Loaded>
    </>
  );
}
