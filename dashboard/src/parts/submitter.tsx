/** Who submits a job, as they call themselves: asked for once, and remembered by this browser. */
import { TextInput } from "@mantine/core";
import { useLocalStorage } from "@mantine/hooks";

export function useSubmitter(): [string, (name: string) => void] {
  const [name, setName] = useLocalStorage({ key: "tilefleet-submitter", defaultValue: "" });
  return [name, setName];
}

export function SubmitterField() {
  const [name, setName] = useSubmitter();
  return (
    <TextInput
      label="Your name"
      description="stands at the job; this browser remembers it"
      autoComplete="name"
      maxLength={200}
      value={name}
      onChange={(event) => setName(event.currentTarget.value)}
    />
  );
}
