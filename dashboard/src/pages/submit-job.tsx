/** The job to be: where, for how long, and how. */
import {
  Button,
  Group,
  NumberInput,
  Radio,
  Select,
  SimpleGrid,
  Stack,
  TagsInput,
  Text,
  TextInput,
} from "@mantine/core";
import { useMutation, useQueries } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";

import type { Board, JobRequest } from "../api/client";
import { api, data } from "../api/client";
import { useBoards } from "../api/queries";
import type { Uploaded } from "../api/upload";
import type { Shapes } from "../api/inputs";
import { shapesOf } from "../api/inputs";
import { milliseconds } from "../format";
import { Notice } from "../parts/notice";
import { Section } from "../parts/section";
import { Failure, Loaded } from "../parts/states";
import { StrategyField, USUAL_STRATEGY } from "../parts/strategy";
import { SubmitterField, useSubmitter } from "../parts/submitter";
import { ShapesField } from "./submit-shapes";

export function Start(uploaded: Uploaded) {
  const boards = useBoards();
  return (
    <Section title="The job" order={2}>
      <Loaded query={boards}>
        {({ items }) => {
          const there = items.filter((board) => board.health !== "retired");
          return there.length === 0 ? (
            <Notice kind="warning" title="There is no board to measure on">
              Attach one first; the model stays stored.
            </Notice>
          ) : (
            <Form {...uploaded} boards={there} />
          );
        }}
      </Loaded>
    </Section>
  );
}

type Numerics = NonNullable<JobRequest["numerics"]>;
const NUMERICS: { value: Numerics; label: string }[] = [
  { value: "exact-integers", label: "exact integers" },
  { value: "exact", label: "exact" },
  { value: "relaxed", label: "relaxed" },
];

function Form({ model, shapes, boards }: Uploaded & { boards: Board[] }) {
  const [, go] = useLocation();
  const targets = [...new Set(boards.map((board) => board.target))];
  const [target, setTarget] = useState(targets.includes("host") ? "host" : targets[0]!);
  const [threads, setThreads] = useState<number | string>(1);
  const [minutes, setMinutes] = useState<number | string>(3);
  const [trials, setTrials] = useState<number | string>("");
  const [strategy, setStrategy] = useState(USUAL_STRATEGY);
  const [seed, setSeed] = useState<number | string>(0);
  const [tags, setTags] = useState<string[]>([]);
  const [priority, setPriority] = useState<number | string>(0);
  const [numerics, setNumerics] = useState<Numerics>("exact-integers");
  const [deadline, setDeadline] = useState("");
  const [name, setName] = useState("");
  const [submitter] = useSubmitter();
  const [labels, setLabels] = useState<string[]>([]);
  const [otherShapes, setOtherShapes] = useState([""]);
  const given: Shapes | string | null = otherShapes.some((text) => text.trim())
    ? shapesOf(otherShapes)
    : shapes;
  const most = Math.max(...boards.filter((board) => board.target === target).map((board) => board.threads));
  const known = [
    ...new Set(boards.filter((board) => board.target === target).flatMap((board) => board.tags)),
  ];
  const problems = problemsOf({ minutes, trials, threads, most, target, deadline, given });
  const start = useMutation({
    mutationFn: () =>
      data(
        api.POST("/api/v1/jobs", {
          body: {
            model: model.hash,
            target,
            threads: Number(threads),
            numerics,
            strategy,
            seed: Number(seed),
            priority: Number(priority),
            tags,
            name: name.trim(),
            labels,
            submitter: submitter.trim(),
            ...(given && typeof given !== "string" && { shapes: given }),
            ...(deadline && { deadline: new Date(deadline).toISOString() }),
            budget: {
              ...(minutes !== "" && { seconds: Number(minutes) * 60 }),
              ...(trials !== "" && { trials: Number(trials) }),
            },
          },
        }),
      ),
    onSuccess: (job) => go(`/jobs/${job.id}`),
  });
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (problems.length === 0) start.mutate();
      }}
    >
      <Stack gap="sm">
        <Targets
          model={model.hash}
          boards={boards}
          targets={targets}
          threads={Number(threads) || 1}
          shapes={typeof given === "string" ? null : given}
          value={target}
          onChange={setTarget}
        />
        <SimpleGrid cols={{ base: 2, sm: 4 }}>
          <NumberInput
            label="Minutes"
            min={0}
            value={minutes}
            onChange={setMinutes}
            description="of tuning; empty: any"
          />
          <NumberInput
            label="Trials"
            min={1}
            value={trials}
            onChange={setTrials}
            description="at most; empty: any"
          />
          <NumberInput
            label="Threads"
            min={1}
            max={most}
            value={threads}
            onChange={setThreads}
            description={`up to ${most} there`}
          />
          <Select
            label="Numerics"
            description="what algorithms may round"
            data={NUMERICS}
            value={numerics}
            allowDeselect={false}
            onChange={(value) => setNumerics((value ?? "exact-integers") as Numerics)}
          />
        </SimpleGrid>
        <SubmitterField />
        <details>
          <summary>More: name, labels, strategy, seed, tags, priority, deadline, shapes</summary>
          <Stack gap="sm" mt="xs">
            <SimpleGrid cols={{ base: 2, sm: 3 }}>
              <TextInput
                label="Name"
                description="of the job, to know it again"
                maxLength={200}
                value={name}
                onChange={(event) => setName(event.currentTarget.value)}
              />
              <TagsInput
                label="Labels"
                description="to find it again"
                value={labels}
                onChange={setLabels}
                clearable
                clearButtonProps={{ "aria-label": "No labels" }}
              />
              <StrategyField value={strategy} onChange={setStrategy} />
              <NumberInput
                label="Seed"
                description="of random choices"
                min={0}
                value={seed}
                onChange={setSeed}
              />
              <NumberInput
                label="Priority"
                description="higher gets boards first"
                min={-100}
                max={100}
                value={priority}
                onChange={setPriority}
              />
              <TagsInput
                label="Tags"
                description="only boards that have all"
                data={known}
                value={tags}
                onChange={setTags}
                clearable
                clearButtonProps={{ "aria-label": "No tags" }}
              />
              <TextInput
                label="Deadline"
                description="it ends with what it has"
                type="datetime-local"
                value={deadline}
                onChange={(event) => setDeadline(event.currentTarget.value)}
              />
            </SimpleGrid>
            <ShapesField texts={otherShapes} onChange={setOtherShapes} />
          </Stack>
        </details>
        {problems.length > 0 && (
          <Notice kind="warning" title="It cannot start like this">
            {problems.join(" ")}
          </Notice>
        )}
        {start.error && <Failure error={start.error} />}
        <Group>
          <Button
            type="submit"
            loading={start.isPending}
            disabled={model.tunable === 0 || problems.length > 0}
          >
            Start tuning
          </Button>
          {model.tunable === 0 && (
            <Text size="sm" c="dimmed">
              There is nothing in it to tune.
            </Text>
          )}
        </Group>
      </Stack>
    </form>
  );
}

type Wanted = {
  minutes: number | string;
  trials: number | string;
  threads: number | string;
  most: number;
  target: string;
  deadline: string;
  given: Shapes | string | null;
};

/** What is wrong with the form, in words. */
function problemsOf({ minutes, trials, threads, most, target, deadline, given }: Wanted): string[] {
  const found = [];
  if (minutes === "" && trials === "") found.push("Give minutes, trials or both: else it has no end.");
  if (minutes !== "" && !(Number(minutes) > 0)) found.push("Minutes must be more than 0.");
  if (trials !== "" && !(Number(trials) >= 1)) found.push("Trials must be at least 1.");
  if (!(Number(threads) >= 1)) found.push("Threads must be at least 1.");
  else if (Number(threads) > most) found.push(`No board of ${target} has more than ${most} threads.`);
  if (deadline && Date.parse(deadline) < Date.now()) found.push("The deadline is over.");
  if (typeof given === "string") found.push(`Of the shapes, ${given}.`);
  return found;
}

/** The targets that have a board, each with what the model may take there before it is tuned. */
function Targets({
  model,
  boards,
  targets,
  threads,
  shapes,
  value,
  onChange,
}: {
  model: string;
  boards: Board[];
  targets: string[];
  threads: number;
  shapes: Shapes | null;
  value: string;
  onChange: (target: string) => void;
}) {
  const given = shapes && JSON.stringify(shapes);
  const forecasts = useQueries({
    queries: targets.map((target) => ({
      queryKey: ["forecast", model, target, threads, given],
      staleTime: 60_000,
      queryFn: () => {
        const path = { model_hash: model };
        const query = { target, threads };
        return data(
          given
            ? api.POST("/api/v1/models/{model_hash}/forecast", {
                params: { path, query: { ...query, shapes: given } },
              })
            : api.GET("/api/v1/models/{model_hash}/forecast", {
                params: { path, query },
              }),
        );
      },
    })),
  });
  return (
    <Radio.Group
      label="Target"
      description="with what its layers may take there"
      value={value}
      onChange={onChange}
    >
      <Stack gap={6} mt={4}>
        {targets.map((target, at) => {
          const mine = boards.filter((board) => board.target === target);
          const good = mine.filter((board) => board.health === "good" && board.activity !== "offline");
          const { data: found, error } = forecasts[at]!;
          const simulated = mine.every((board) => board.clock !== "wall");
          return (
            <Radio
              key={target}
              value={target}
              label={`${target}${simulated ? " (simulated)" : ""}: ${
                found
                  ? `about ${milliseconds(found.expected_ms)}, ${
                      found.known === found.workloads
                        ? "by records of every layer"
                        : found.known
                          ? `by records of ${found.known} of ${found.workloads} layers and the machine model`
                          : "by the machine model"
                    }${found.without ? `, without ${found.without} layers` : ""}`
                  : error
                    ? `no forecast: ${error.message}`
                    : "a forecast is being made"
              }`}
              description={
                good.length
                  ? `${good.length} of ${mine.length} board${mine.length > 1 ? "s" : ""} in service`
                  : `no board in service now: ${mine[0]!.id} is ${mine[0]!.activity}; a job waits for it`
              }
            />
          );
        })}
      </Stack>
    </Radio.Group>
  );
}
