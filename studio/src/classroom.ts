// The class: who this page is (alone, teacher, student or guest), joining with a code, and following the teacher.

import { signal } from "@preact/signals";
import { parse, place, read, set } from "./address";
import { events, request } from "./engine/remote";
import { fail, failure, load } from "./session";

export type Role = "alone" | "teacher" | "student" | "guest";
export const role = signal<Role>("alone");
export const code = signal("");
export const link = signal("");
export const students = signal(0);
export const following = signal(true);

interface Told { active: boolean; role: Role; code?: string; link?: string; students?: number }

export async function ask(): Promise<void> {
  const told = await request<Told>("/v1/class");
  [role.value, code.value, link.value, students.value] = [told.role, told.code ?? "", told.link ?? "", told.students ?? 0];
}

/** Begin: a guest with a code in the address joins, a student follows, and the models are loaded. */
export async function begin(): Promise<void> {
  try {
    await ask();
    if (role.value === "guest" && read("join")) await join(read("join"));
  } catch (error) {
    fail(error);
  }
  if (read("join")) set({ join: "" });
  if (role.value === "guest") return;
  if (role.value === "student") void follow();
  await load();
}

export async function join(given: string): Promise<void> {
  try {
    await request("/v1/class/join", { code: given });
    role.value = "student";
    failure.value = null;
  } catch (error) {
    fail(error);
  }
}

/** Go where the teacher is, for as long as the page is open. */
async function follow(): Promise<void> {
  for (;;) {
    try {
      for await (const [kind, data] of events("/v1/class/events", undefined)) {
        const { view } = data as { view: string };
        if ((kind === "view" || (kind === "joined" && view)) && following.value) show(view);
      }
    } catch (error) {
      fail(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 2000));
  }
}

function show(view: string): void {
  const there = parse(view), { lang = "", theme = "" } = place.value.values; // a reader's own preferences stay
  place.value = { screen: there.screen, values: { ...there.values, lang, theme } };
}

/** Send everybody to what is on this screen; the teacher's own language and theme stay here. */
export async function send(): Promise<void> {
  const { screen, values } = place.value;
  const { lang: _, theme: __, ...rest } = values;
  const view = `#/${screen}?${new URLSearchParams(rest)}`;
  try {
    students.value = (await request<{ students: number }>("/v1/class/view", { view })).students;
    failure.value = null;
  } catch (error) {
    fail(error);
  }
}
