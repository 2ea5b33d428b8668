/** From a model file to a running job. */
import { Button, FileInput, Group, NumberInput, Paper, Select, Stack, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import type { Model, Workloads } from "../api/client";
import { ApiError, api, data } from "../api/client";
import { useTargets } from "../api/queries";
import { millions } from "../format";
import { Section } from "../parts/section";
import { Failure } from "../parts/states";
import { DataTable } from "../parts/table";

const NUMERICS = ["exact", "exact-integers", "relaxed"] as const;
type Numerics = (typeof NUMERICS)[number];
type Uploaded = { model: Model; workloads: Workloads };

export default function Submit() {
  const upload = useMutation({ mutationFn: uploaded });
  const [file, setFile] = useState<File | null>(null);
  const take = (chosen: File | null) => {
    setFile(chosen);
    if (chosen) upload.mutate(chosen);
    else upload.reset();
  };
  return (
    <Stack maw={760}>
      <Title order={2} size="h3">
        Submit a model
      </Title>
      <Paper
        withBorder
        p="md"
        onDragOver={(event) => event.preventDefault()}
        onDrop={(event) => {
          event.preventDefault();
          if (!upload.isPending) take(event.dataTransfer.files[0] ?? null);
        }}
      >
        <FileInput
          label="Model"
          description="An ONNX or TFLite file; drop it here or choose it. It is read in a process of its own."
          placeholder="model.onnx"
          accept=".onnx,.tflite"
          clearable
          clearButtonProps={{ "aria-label": "Choose none" }}
          disabled={upload.isPending}
          value={file}
          onChange={take}
        />
      </Paper>
      {upload.isPending && <Text role="status">Reading the model</Text>}
      {upload.error && <Failure error={upload.error} />}
      {upload.data && <Start {...upload.data} />}
    </Stack>
  );
}

async function uploaded(file: File): Promise<Uploaded> {
  // The body is the file itself, which the generated client has no type for.
  const answer = await fetch(`/api/v1/models?name=${encodeURIComponent(file.name)}`, {
    method: "POST",
    body: file,
    headers: { "content-type": "application/octet-stream" },
  }).catch(() => {
    throw new ApiError("the coordinator does not answer", 0);
  });
  const body = (await answer.json()) as Model & { detail?: string };
  if (!answer.ok) throw new ApiError(body.detail ?? `HTTP ${answer.status}`, answer.status);
  const workloads = await data(
    api.GET("/api/v1/models/{model_hash}/workloads", { params: { path: { model_hash: body.hash } } }),
  );
  return { model: body, workloads };
}

function Start({ model, workloads }: Uploaded) {
  const targets = useTargets();
  const [, go] = useLocation();
  const [target, setTarget] = useState("host");
  const [threads, setThreads] = useState(1);
  const [minutes, setMinutes] = useState<number | string>(3);
  const [numerics, setNumerics] = useState<Numerics>("exact-integers");
  const start = useMutation({
    mutationFn: () =>
      data(
        api.POST("/api/v1/jobs", {
          body: {
            model: model.hash,
            target,
            threads,
            numerics,
            budget: { seconds: Number(minutes) * 60 },
            strategy: "model",
            seed: 0,
            priority: 0,
          },
        }),
      ),
    onSuccess: (job) => go(`/jobs/${job.id}`),
  });
  return (
    <>
      <Text>
        {model.name}: {model.tunable} of {model.operators} convolutions and matrix products can be tuned,{" "}
        {workloads.workloads.length} of them distinct, {(model.flops / 1e9).toFixed(2)} billion operations an
        inference.
      </Text>
      <Group align="end">
        <Select
          label="Target"
          data={[...new Set(["host", ...(targets.data?.items.map((each) => each.name) ?? [])])]}
          value={target}
          allowDeselect={false}
          searchable
          onChange={(value) => setTarget(value ?? "host")}
        />
        <NumberInput
          label="Threads"
          min={1}
          w={100}
          value={threads}
          onChange={(value) => setThreads(Number(value))}
        />
        <NumberInput label="Minutes" min={0.1} step={1} w={100} value={minutes} onChange={setMinutes} />
        <Select
          label="Numerics"
          data={[...NUMERICS]}
          value={numerics}
          allowDeselect={false}
          onChange={(value) => setNumerics((value ?? "exact-integers") as Numerics)}
        />
        <Button onClick={() => start.mutate()} loading={start.isPending} disabled={model.tunable === 0}>
          Start tuning
        </Button>
      </Group>
      {start.error && <Failure error={start.error} />}
      <DataTable
        label="Workloads"
        minWidth={480}
        rows={workloads.workloads}
        keyOf={(each) => each.key}
        columns={[
          { head: "Workload", cell: (each) => each.text },
          { head: "Times", cell: (each) => each.count },
          { head: "Operations", cell: (each) => millions(each.flops, each.unit) },
        ]}
      />
      {workloads.not_tunable.length > 0 && (
        <Section title="Left to TVM">
          <DataTable
            label="Left to TVM"
            minWidth={480}
            rows={workloads.not_tunable}
            keyOf={(each) => each.node}
            columns={[
              { head: "Node", cell: (each) => each.node },
              { head: "Operator", cell: (each) => each.op },
              { head: "Why", cell: (each) => each.reason },
            ]}
          />
        </Section>
      )}
    </>
  );
}
