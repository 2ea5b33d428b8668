/** From a model file to a running job: what is in it and about how fast it will be, before anything is paid for. */
import { Button, FileInput, Paper, Progress, Stack, Text, Title } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError } from "../api/client";
import type { Shapes, Values } from "../api/inputs";
import { shapesIn } from "../api/inputs";
import { uploaded } from "../api/upload";
import { kilobytes } from "../format";
import { Failure } from "../parts/states";
import { useTitle } from "../tab";
import classes from "./submit.module.css";
import { Inputs } from "./submit-inputs";
import { Start } from "./submit-job";
import { InModel } from "./submit-model";

type Sent = { file: File; shapes: Shapes | null; values: Values | null };

export default function Submit() {
  useTitle("Submit a model");
  const [part, progress] = useState(0);
  const upload = useMutation({
    mutationFn: ({ file, shapes, values }: Sent) => uploaded(file, shapes, values, progress),
  });
  const [file, setFile] = useState<File | null>(null);
  const [over, hover] = useState(false);
  const [texts, setTexts] = useState([""]);
  const send = (chosen: File, shapes: Shapes | null, values: Values | null) => {
    progress(0);
    upload.mutate(
      { file: chosen, shapes, values },
      { onError: (error) => setTexts((now) => (now.some(Boolean) ? now : [shapesIn(error.message)])) },
    );
  };
  const take = (chosen: File | null) => {
    setFile(chosen);
    setTexts([""]);
    if (chosen) send(chosen, null, null);
    else upload.reset();
  };
  // It stays while shapes are tried: one that does not fit is refused in other words.
  const open = upload.error !== null && /dynamic shape/.test(upload.error.message);
  const dynamic = open || (upload.error !== null && upload.variables?.shapes != null);
  return (
    <Stack maw={960}>
      <Title order={2} size="h3">
        Submit a model
      </Title>
      <Paper
        withBorder
        p="md"
        className={classes.drop ?? ""}
        data-over={over || undefined}
        onDragOver={(event) => {
          event.preventDefault();
          hover(true);
        }}
        onDragLeave={() => hover(false)}
        onDrop={(event) => {
          event.preventDefault();
          hover(false);
          if (!upload.isPending) take(event.dataTransfer.files[0] ?? null);
        }}
      >
        <FileInput
          label="Model"
          description="An ONNX or TFLite file, or a zip of a model and its weights; drop it here or choose it. It is read in a process of its own."
          placeholder="Choose a file, or drop one here"
          accept=".onnx,.tflite,.zip"
          clearable
          clearButtonProps={{ "aria-label": "Choose none" }}
          disabled={upload.isPending}
          value={file}
          onChange={take}
        />
      </Paper>
      {upload.isPending && file && (
        <div role="status">
          <Text size="sm">
            {part < 1
              ? `Sending ${file.name}, ${kilobytes(file.size)}`
              : `Reading ${file.name}: its operators and their shapes`}
          </Text>
          <Progress value={100 * part} animated={part >= 1} aria-label="Progress of the upload" />
        </div>
      )}
      {upload.error && !open && (
        <>
          <Failure error={upload.error} />
          {upload.error instanceof ApiError && upload.error.status === 0 && file && (
            <Button
              variant="light"
              w="fit-content"
              onClick={() => send(file, upload.variables?.shapes ?? null, upload.variables?.values ?? null)}
            >
              Send it again
            </Button>
          )}
        </>
      )}
      {file && (
        <Inputs
          key={`${file.name} ${file.lastModified}`}
          busy={upload.isPending}
          refused={upload.error?.message}
          open={open}
          dynamic={dynamic}
          texts={texts}
          setTexts={setTexts}
          onRead={(shapes, values) => send(file, shapes ?? upload.variables?.shapes ?? null, values)}
        />
      )}
      {upload.data && file && (
        <>
          <InModel {...upload.data} name={file.name} />
          <Start {...upload.data} />
        </>
      )}
    </Stack>
  );
}
