/** What to do next, and the times of the model side by side. */
import { Box, Group, List, Progress, SimpleGrid, Text } from "@mantine/core";

import type { Job, Task } from "../api/client";
import { useProgress } from "../api/queries";
import { measured, milliseconds, percent } from "../format";
import { Section } from "../parts/section";
import { adviceOf } from "./job-advice";
import { layersOf } from "./job-layers";

const SIGNS = { fact: "•", good: "✓", do: "→" };

export function Next({ job, tasks }: { job: Job; tasks: Task[] }) {
  const progress = useProgress(job.id);
  const advice = adviceOf(job, layersOf(tasks), progress.data?.points ?? []);
  if (advice.length === 0) return null;
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      <Section title="What the figures say">
        <List listStyleType="none" spacing={4} mt={4}>
          {advice.map(({ kind, text }) => (
            <List.Item
              key={text}
              icon={
                <Box component="span" w={16} display="inline-block" aria-hidden="true">
                  {SIGNS[kind]}
                </Box>
              }
            >
              <Text size="sm">{text}</Text>
            </List.Item>
          ))}
        </List>
      </Section>
      <Times job={job} tasks={tasks} />
    </SimpleGrid>
  );
}

type Bar = { name: string; value: string; parts: [string, number, string][] };

/** The untuned model, the layers by themselves, the estimate of the whole, and what was delivered. */
function Times({ job, tasks }: { job: Job; tasks: Task[] }) {
  const layers = 1e3 * tasks.reduce((sum, task) => sum + task.weight * (task.best_s ?? 0), 0);
  const { built, estimated_ms, verdict } = job;
  if (estimated_ms === null) return null;
  const bars: Bar[] = [];
  if (verdict)
    bars.push({
      name: "Untuned: built and measured",
      value: milliseconds(verdict.untuned_ms),
      parts: [["untuned", verdict.untuned_ms, "gray.5"]],
    });
  bars.push({
    name: "Sum of the layers",
    value: milliseconds(layers),
    parts: [["layers", layers, "cyan.7"]],
  });
  const other = built?.other_ms ?? 0;
  const more = estimated_ms - layers - other;
  bars.push({
    name: "Whole model, estimated",
    value: milliseconds(estimated_ms),
    parts: [
      ["layers", layers, "cyan.7"],
      ["more inside the model", Math.max(0, more), "cyan.4"],
      ["other operators", other, "orange.6"],
    ],
  });
  const delivered = verdict?.delivered_ms ?? built?.measured_ms;
  if (delivered)
    bars.push({
      name: "Delivered: built and measured",
      value: measured(job),
      parts: [["delivered", delivered, "green.7"]],
    });
  const most = Math.max(...bars.map(({ parts }) => parts.reduce((sum, [, ms]) => sum + ms, 0)));
  return (
    <Section title="Estimate, layers and delivered model">
      {bars.map(({ name, value, parts }) => (
        <div key={name}>
          <Group justify="space-between" gap="xs" mt={6}>
            <Text size="sm">{name}</Text>
            <Text size="sm" fw={600}>
              {value}
            </Text>
          </Group>
          <Progress.Root size="lg">
            {parts
              .filter(([, ms]) => ms > most / 1e4)
              .map(([part, ms, colour]) => (
                <Progress.Section
                  key={part}
                  value={(100 * ms) / most}
                  color={colour}
                  aria-label={`${part} ${milliseconds(ms)}`}
                  title={`${part} ${milliseconds(ms)}`}
                />
              ))}
          </Progress.Root>
        </div>
      ))}
      <Text size="sm" c="dimmed" mt={4}>
        {delivered
          ? `The estimate is ${percent(Math.abs(estimated_ms / delivered - 1))} ${estimated_ms < delivered ? "below" : "above"} what was delivered. `
          : ""}
        {other > 0 && `Other operators take ${milliseconds(other)} of it.`}
      </Text>
    </Section>
  );
}
