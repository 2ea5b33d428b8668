/** Shapes and values of a model's inputs, as people write them. */
type ShapeSet = Record<string, (number | string)[]>;
/** One set, or several for a model that takes any of them. */
export type Shapes = ShapeSet | ShapeSet[];
/** Numbers with the digits that were typed: a 64-bit integer has more than the language's numbers. */
export type Values = Record<string, string[]>;

/** Texts of sets, an empty one left out, as shapes, or what is wrong with the first that is wrong. */
export function shapesOf(texts: string[]): Shapes | string {
  const sets = texts.filter((text) => text.trim()).map(setOf);
  const wrong = sets.find((each) => typeof each === "string");
  if (wrong !== undefined) return wrong;
  return sets.length > 1 ? (sets as ShapeSet[]) : (sets[0] ?? "give at least one input");
}

/** Lines like `x=1,3,224,224` as a set of shapes, or what is wrong with them. */
export function setOf(text: string): ShapeSet | string {
  const shapes: ShapeSet = {};
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (!line) continue;
    const at = line.lastIndexOf("=");
    const sizes = line
      .slice(at + 1)
      .split(",")
      .map((size) => size.trim());
    const wrong = sizes.find((size) => !/^(0|[1-9]\d*)$|^\d+\.\.\d+$/.test(size));
    if (at < 1 || wrong !== undefined)
      return `"${line}" is not like x=1,3,224,224${wrong ? `: "${wrong}" is no size` : ""}`;
    shapes[line.slice(0, at)] = sizes.map((size) => (size.includes("..") ? size : Number(size)));
  }
  return shapes;
}

/** The shapes that a refusal proposes, as the lines that a field takes. */
export function shapesIn(message: string): string {
  return [...message.matchAll(/--shape (?:'([^']+)'|(\S+?))=([\d,]+)/g)]
    .map(([, quoted, plain, sizes]) => `${quoted ?? plain}=${sizes}`)
    .join("\n");
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i;

/** Lines like `sr=16000` as values, null of none, or what is wrong with them. */
export function valuesOf(text: string): Values | string | null {
  const values: Values = {};
  for (const line of text.split("\n").map((each) => each.trim())) {
    if (!line) continue;
    const at = line.lastIndexOf("=");
    const numbers = line
      .slice(at + 1)
      .split(",")
      .map((number) => number.trim());
    const wrong = numbers.find((number) => !NUMBER.test(number));
    if (at < 1 || wrong !== undefined)
      return `"${line}" is not like sr=16000${wrong ? `: "${wrong}" is no number` : ""}`;
    values[line.slice(0, at)] = numbers;
  }
  return Object.keys(values).length ? values : null;
}

/** Values as the upload takes them. */
export function jsonOf(values: Values): string {
  const each = Object.entries(values).map(
    ([name, numbers]) => `${JSON.stringify(name)}: [${numbers.join()}]`,
  );
  return `{${each.join()}}`;
}
