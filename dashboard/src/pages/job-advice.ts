/** What to do next with a job, in sentences that its own figures say. */
import type { Job, Point } from "../api/client";
import { isOver } from "../api/live";
import { digits, milliseconds, percent, seconds } from "../format";
import type { Layer } from "./job-layers";
import { counts } from "./job-layers";

/** So near to the roofline nothing is left to gain: measurements scatter by as much. */
const NEAR = 1.1;
const MUCH = 0.2;
/** Of the whole. */
const MOST = 0.7;

/** Of those that are `good` nothing is left to do, of `do` there is. */
export type Advice = { kind: "fact" | "good" | "do"; text: string };

export function adviceOf(job: Job, tasks: Layer[], points: Point[]): Advice[] {
  const layers = tasks.filter(counts);
  if (layers.length === 0 || layers.some((layer) => layer.taken === null)) return [];
  const found = [heaviest(layers), ...roofline(layers), search(job, points), ...whole(job)];
  return [...found, library(layers), failures(job), disturbed(layers)].filter((each) => each !== null);
}

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
const quoted = (layer: Layer) => `“${layer.text}”`;

/** Which one or two most of the time is in; the table of layers says how few it is in when they are more. */
function heaviest(layers: Layer[]): Advice | null {
  if (layers.length < 3) return null;
  const [first, second] = [...layers].sort((one, other) => other.part! - one.part!);
  const few = first!.part! < MOST ? [first!, second!] : [first!];
  const share = sum(few.map((layer) => layer.part!));
  return share < MOST
    ? null
    : {
        kind: "fact",
        text: `${few.map(quoted).join(" and ")} ${few.length > 1 ? "take" : "takes"} ${percent(share)} of the layers' time.`,
      };
}

function roofline(layers: Layer[]): Advice[] {
  const known = layers.filter((layer) => layer.bound_s !== null);
  if (known.length === 0) return [];
  const near = known.filter((layer) => layer.best_s! <= layer.bound_s! * NEAR);
  const left = (layer: Layer) => layer.weight * Math.max(0, layer.best_s! - layer.bound_s!);
  const farthest = [...known].sort((one, other) => left(other) - left(one))[0]!;
  const total = sum(known.map(left));
  const found: Advice[] = [];
  // Winograd needs fewer operations than the roofline counts; nothing else can be faster than it.
  const faster = known.filter(
    (l) => l.best_config?.["kernel"] !== "winograd" && l.best_s! < 0.67 * l.bound_s!,
  );
  if (faster.length)
    return [
      {
        kind: "do",
        text: `${faster.length} layers are faster than the roofline allows: the peak or the bandwidth was measured while something else ran, so nothing is said about headroom.`,
      },
    ];
  if (near.length)
    found.push({
      kind: "good",
      text: `${near.length} of ${known.length} layers are within ${digits((NEAR - 1) * 100)} % of the roofline or below it: there is nothing left to gain.`,
    });
  if (total > 0.05 * sum(known.map((layer) => layer.taken!)))
    found.push({
      kind: "do",
      text: `With all layers at the roofline the model would save ${seconds(total)}; ${percent(left(farthest) / total)} of that is in ${quoted(farthest)}, which takes ${digits(farthest.best_s! / farthest.bound_s!)} times what the machine allows: look at its knobs.`,
    });
  return found;
}

/** What the last quarter of the trials brought. */
function search(job: Job, points: Point[]): Advice | null {
  const last = points.at(-1);
  if (!isOver(job) || !last || last.trial < 20) return null;
  const from = 0.75 * last.trial;
  const before = [...points].reverse().find((point) => point.trial <= from) ?? points[0]!;
  const gained = 1 - last.estimated_ms / before.estimated_ms;
  const much = gained > 0.01;
  return {
    kind: much ? "do" : "good",
    text: much
      ? `The last quarter of its ${last.trial} trials still gained ${digits(gained * 100)} %: ${overdue(job) ? "its deadline ended it, so resume it" : "a job with a larger budget goes on from here and repeats nothing"}.`
      : `The last quarter of its ${last.trial} trials gained ${digits(gained * 100)} %: more of them promise little.`,
  };
}

/** Whether its deadline ended it. */
function overdue({ deadline, finished }: Job): boolean {
  return deadline !== null && finished !== null && Date.parse(finished) >= Date.parse(deadline);
}

function whole({ built }: Job): Advice[] {
  if (!built?.measured_ms) return [];
  const found: Advice[] = [];
  const other = built.operators.filter((each) => each.workload_key === null);
  const share = sum(other.map((each) => each.share));
  if (share > MUCH)
    found.push({
      kind: "do",
      text: `${percent(share)} of the built model's time is in operators that nothing tunes, most in “${other[0]!.name}” (${milliseconds(other[0]!.ms)}).`,
    });
  if (built.in_place > 1.1)
    found.push({
      kind: "do",
      text: `Inside the model the heaviest layers take ${digits(built.in_place)} times what they take alone: caches are shared. Fewer bytes help more than fewer operations.`,
    });
  return found;
}

function library(layers: Layer[]): Advice | null {
  const slower = layers.filter((layer) => layer.baselines[0] && layer.baselines[0].seconds < layer.best_s!);
  if (slower.length === 0) return null;
  const name = slower[0]!.baselines[0]!.library;
  return {
    kind: "do",
    text: `${name} is faster for ${slower.length} of ${layers.length} layers; more trials for them come first.`,
  };
}

function failures(job: Job): Advice | null {
  const share = job.trials ? job.failed / job.trials : 0;
  if (share < MUCH) return null;
  return {
    kind: "do",
    text: `${percent(share)} of the trials failed, which is budget lost: the reasons stand above.`,
  };
}

function disturbed(layers: Layer[]): Advice | null {
  const count = layers.filter((layer) => layer.best_disturbed).length;
  if (count === 0) return null;
  return {
    kind: "do",
    text: `The best of ${count} layers was measured while something else had the machine: resume the job when it is quiet.`,
  };
}
