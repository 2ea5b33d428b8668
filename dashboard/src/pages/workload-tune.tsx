/** A job for one workload, from its page. */
import { Button, Group, Modal, NumberInput, Select, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import { api, data } from "../api/client";
import { useBoards } from "../api/queries";
import type { components } from "../api/schema";
import { Notice } from "../parts/notice";
import { Failure } from "../parts/states";
import { StrategyField, USUAL_STRATEGY } from "../parts/strategy";
import { SubmitterField, useSubmitter } from "../parts/submitter";

type View = components["schemas"]["WorkloadView"];
type Where = { target: string; threads: number };

export function Tune({ view, at, onClose }: { view: View; at: Where | null; onClose: () => void }) {
  const boards = useBoards();
  const [, go] = useLocation();
  const targets = [
    ...new Set(boards.data?.items.filter((b) => b.health !== "retired").map((b) => b.target) ?? []),
  ];
  const [chosen, choose] = useState<string | null>(null);
  const target = chosen ?? (at && targets.includes(at.target) ? at.target : targets[0]);
  const [threads, setThreads] = useState<number | string>(at?.threads ?? 1);
  const [trials, setTrials] = useState<number | string>(200);
  const [submitter] = useSubmitter();
  const [strategy, setStrategy] = useState(USUAL_STRATEGY);
  const start = useMutation({
    mutationFn: () =>
      data(
        api.POST("/api/v1/jobs", {
          body: {
            workload: view.workload,
            target: target!,
            threads: Number(threads),
            strategy,
            budget: { trials: Number(trials) },
            seed: Math.floor(Math.random() * 2 ** 31),
            priority: 0,
            numerics: "exact-integers",
            name: "",
            labels: [],
            submitter: submitter.trim(),
          },
        }),
      ),
    onSuccess: (job) => go(`/jobs/${job.id}`),
  });
  return (
    <Modal opened onClose={onClose} title="Tune this workload" closeButtonProps={{ "aria-label": "Close" }}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          start.mutate();
        }}
      >
        <Stack>
          <Text size="sm">{view.text}. What is known of it already is not measured again.</Text>
          {boards.data && targets.length === 0 && (
            <Notice kind="warning" title="There is no board">
              Attach one first; then it can be tuned.
            </Notice>
          )}
          <Group grow>
            <Select
              label="Target"
              data={targets}
              value={target ?? null}
              onChange={choose}
              allowDeselect={false}
              data-autofocus
            />
            <NumberInput label="Threads" min={1} max={4096} required value={threads} onChange={setThreads} />
            <NumberInput label="Trials" min={1} required value={trials} onChange={setTrials} />
          </Group>
          <StrategyField value={strategy} onChange={setStrategy} />
          <SubmitterField />
          {start.error && <Failure error={start.error} />}
          <Button type="submit" loading={start.isPending} disabled={target === undefined}>
            Start tuning
          </Button>
        </Stack>
      </form>
    </Modal>
  );
}
