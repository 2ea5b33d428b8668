/** The labels of a job, and the dialogs that change its name and labels or delete it. */
import { Badge, Button, Group, Modal, NumberInput, Stack, TagsInput, Text, TextInput } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import type { Job } from "../api/client";
import { ApiError, api, data, done } from "../api/client";
import { useLabels } from "../api/job-queries";
import { Failure } from "./states";

export function Labels({ job }: { job: Job }) {
  return (
    <Group gap={4} component="span">
      {job.labels.map((label) => (
        <Badge key={label} variant="default" size="sm" tt="none" fw={500}>
          {label}
        </Badge>
      ))}
    </Group>
  );
}

const CLOSE = { "aria-label": "Close" };

export function Rename({ job, onClose }: { job: Job; onClose: () => void }) {
  const queries = useQueryClient();
  const known = useLabels();
  const [name, setName] = useState(job.name);
  const [labels, setLabels] = useState(job.labels);
  const act = useMutation({
    mutationFn: () =>
      data(
        api.PATCH("/api/v1/jobs/{job_id}", { params: { path: { job_id: job.id } }, body: { name, labels } }),
      ),
    onSuccess: (changed) => {
      queries.setQueryData(["job", job.id], changed);
      void queries.invalidateQueries({ queryKey: ["jobs"] });
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`Name and labels of job ${job.id}`} closeButtonProps={CLOSE}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          act.mutate();
        }}
      >
        <Stack>
          <TextInput
            label="Name"
            description="Any words; empty shows the model's name."
            maxLength={200}
            value={name}
            onChange={(event) => setName(event.currentTarget.value)}
            data-autofocus
          />
          <TagsInput
            label="Labels"
            description="Words to find it again by; Enter ends each. Boards are not chosen by them."
            maxTags={20}
            data={
              known.data?.items.map(({ label }) => label).filter((label) => !labels.includes(label)) ?? []
            }
            // Below, it would lie over what saves.
            comboboxProps={{ position: "top", withinPortal: false }}
            value={labels}
            onChange={setLabels}
          />
          {act.error && <Failure error={act.error} />}
          <Button type="submit" loading={act.isPending}>
            Save
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}

/** Gives a job that has used up its budget another one. */
export function Resume({ job, onClose }: { job: Job; onClose: () => void }) {
  const queries = useQueryClient();
  const [minutes, setMinutes] = useState<number | string>(job.budget.seconds === null ? "" : 3);
  const [trials, setTrials] = useState<number | string>(job.budget.trials === null ? "" : 100);
  const act = useMutation({
    mutationFn: () =>
      data(
        api.POST("/api/v1/jobs/{job_id}/resume", {
          params: { path: { job_id: job.id } },
          body: { seconds: minutes === "" ? null : 60 * +minutes, trials: trials === "" ? null : +trials },
        }),
      ),
    onSuccess: (resumed) => {
      queries.setQueryData(["job", job.id], resumed);
      onClose();
    },
  });
  return (
    <Modal opened onClose={onClose} title={`Resume job ${job.id}`} closeButtonProps={CLOSE}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          act.mutate();
        }}
      >
        <Stack>
          <Text size="sm">Its budget is used up. Say what it may use from now on; no trial is repeated.</Text>
          <NumberInput label="Minutes" min={0} value={minutes} onChange={setMinutes} data-autofocus />
          <NumberInput label="Trials" min={1} allowDecimal={false} value={trials} onChange={setTrials} />
          {act.error && <Failure error={act.error} />}
          <Button type="submit" loading={act.isPending} disabled={minutes === "" && trials === ""}>
            Resume
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}

/** Deletes jobs that have ended, one after the other; `onDone` is called when all are gone. */
export function Delete({
  jobs,
  onClose,
  onDone,
}: {
  jobs: number[];
  onClose: () => void;
  onDone: () => void;
}) {
  const queries = useQueryClient();
  const act = useMutation({
    mutationFn: async () => {
      for (const id of jobs) {
        // What is gone already was deleted by somebody else, or before one of the others was refused.
        await done(api.DELETE("/api/v1/jobs/{job_id}", { params: { path: { job_id: id } } })).catch(
          (error) => {
            if (!(error instanceof ApiError) || error.status !== 404) throw error;
          },
        );
      }
    },
    onSuccess: onDone,
    onSettled: () => queries.invalidateQueries({ queryKey: ["jobs"] }),
  });
  const which = jobs.length === 1 ? `job ${jobs[0]}` : `${jobs.length} jobs`;
  return (
    <Modal opened onClose={onClose} title={`Delete ${which}?`} closeButtonProps={CLOSE}>
      <Stack>
        <Text size="sm">
          {which[0]!.toUpperCase() + which.slice(1)} with {jobs.length === 1 ? "its" : "their"} curve and
          layers will be gone for good. Nothing that was measured is lost: records and best configs stay.
        </Text>
        {act.error && <Failure error={act.error} />}
        <Group>
          <Button color="red" onClick={() => act.mutate()} loading={act.isPending}>
            Delete
          </Button>
          <Button variant="default" onClick={onClose} data-autofocus>
            Keep
          </Button>
        </Group>
      </Stack>
    </Modal>
  );
}
