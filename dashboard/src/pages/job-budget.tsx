/** Which task gets the budget now, and why: by what the scheduler itself goes by. */
import { Card, Text, Title } from "@mantine/core";

import type { Job, Task } from "../api/client";
import { isOver } from "../api/live";
import { digits, milliseconds, seconds } from "../format";

type Shared = Task & { share: NonNullable<Task["share"]> };

export function Budget({ job, tasks }: { job: Job; tasks: Task[] }) {
  const shared = tasks.filter((task): task is Shared => task.share !== null);
  if (isOver(job) || shared.length === 0) return null;
  const open = shared.filter((task) => task.share.open);
  const next = [...open].sort((one, other) => gainOf(other) - gainOf(one))[0];
  const flying = shared.filter((task) => task.share.in_flight > 0);
  return (
    <Card withBorder padding="sm" component="section" aria-labelledby="budget">
      <Title order={3} size="h5" id="budget">
        Where the budget goes
      </Title>
      {flying.length > 0 && (
        <Text size="sm">
          Under way: {flying.map((task) => `${task.text} (${candidates(task.share.in_flight)})`).join("; ")}
        </Text>
      )}
      {next ? (
        <Text size="sm">
          Next: <b>{next.text}</b>, {whyOf(next)}.
        </Text>
      ) : (
        flying.length === 0 && (
          <Text size="sm">
            No task promises more: the best configs of each are measured again, in turns, before one is called
            best.
          </Text>
        )
      )}
      <Text size="sm" c="dimmed">
        A batch goes to the task whose next trial is expected to gain the whole model most: occurrences times
        best time times expected improvement, which falls with every trial that brings nothing. {open.length}{" "}
        of {shared.length} tasks are open.
      </Text>
    </Card>
  );
}

const candidates = (count: number) => `${count} candidate${count === 1 ? "" : "s"}`;

/** In milliseconds; a task of which nothing has run comes first. */
function gainOf(task: Shared): number {
  return task.share.gain_ms ?? Infinity;
}

function whyOf({ share, weight, best_s }: Shared): string {
  if (share.gain_ms === null || share.step === null) return "of which nothing has run yet";
  const times = weight > 1 ? `${weight} x ` : "";
  return (
    `whose next trial is expected to save ${milliseconds(share.gain_ms)}: ` +
    `${times}${seconds(best_s)} x ${digits(share.step * 100)} %`
  );
}

/** A task's place in the queue, for a table. */
export function promiseOf(task: Task): string {
  if (task.share === null) return "–";
  if (!task.share.open) return `none after ${task.share.flat} flat`;
  return task.share.gain_ms === null ? "first" : milliseconds(task.share.gain_ms);
}
