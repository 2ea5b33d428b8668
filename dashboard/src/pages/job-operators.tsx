/** What the built model spends its time in: its workloads, and all that nothing is tuned of. */
import { Group, Progress, Text } from "@mantine/core";

import type { Job } from "../api/client";
import { milliseconds, percent } from "../format";
import { Section } from "../parts/section";
import type { Column } from "../parts/table";
import { DataTable, WorkloadLink } from "../parts/table";

type Operator = NonNullable<Job["built"]>["operators"][number];

const COLUMNS = (job: Job): Column<Operator>[] => [
  {
    head: "Operator",
    cell: ({ name, workload_key }) =>
      workload_key ? (
        <WorkloadLink workload={workload_key} text={name} at={job} />
      ) : (
        <Text size="sm">{name}</Text>
      ),
  },
  { head: "Tuned", cell: ({ workload_key }) => (workload_key ? "yes" : "no") },
  { head: "Calls", cell: ({ calls }) => calls },
  { head: "Time", cell: ({ ms }) => milliseconds(ms) },
  {
    head: "Share",
    cell: ({ name, share }) => (
      <Group gap="xs" wrap="nowrap">
        <Progress value={share * 100} w={80} aria-label={`Share of ${name}`} />
        <Text size="sm">{percent(share)}</Text>
      </Group>
    ),
  },
];

export function Operators({ job }: { job: Job }) {
  const operators = job.built?.operators ?? [];
  if (operators.length === 0) return null;
  const other = operators.filter(({ workload_key }) => !workload_key);
  return (
    <Section title="Where the built model's time goes">
      <DataTable
        label="Where the built model's time goes"
        minWidth={600}
        rows={operators}
        keyOf={({ name, workload_key }) => workload_key ?? name}
        columns={COLUMNS(job)}
      />
      <Text size="sm" c="dimmed">
        Timed call by call in runs of the model. {percent(other.reduce((sum, { share }) => sum + share, 0))}{" "}
        of the time is in what is not tuned.
      </Text>
    </Section>
  );
}
