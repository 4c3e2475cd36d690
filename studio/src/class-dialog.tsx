// The class on the page: a button with the code for the teacher, a form for guests, a switch for students.

import { signal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { ask, begin, code, following, join, link, role, send, students } from "./classroom";
import { root } from "./engine/remote";
import { inBoth } from "./preferences";
import { fail } from "./session";
import en from "./strings/en/class";
import ko from "./strings/ko/class";
import "./class-dialog.css";

const words = inBoth(en, ko);
const sent = signal(false);

/** What the bar has for the class; nothing where there is none. */
export function ClassMenu() {
  const dialog = useRef<HTMLDialogElement>(null), w = words.value;
  if (role.value === "student") {
    return <label class="class-follow"><input type="checkbox" checked={following.value} onChange={(event) => (following.value = event.currentTarget.checked)} /> {w.follow}</label>;
  }
  if (role.value !== "teacher") return null;
  const open = () => {
    sent.value = false;
    dialog.current?.showModal();
    ask().catch(fail);
  };
  return (
    <>
      <button type="button" onClick={open}>{w.class}</button>
      <dialog ref={dialog} class="class" aria-labelledby="class-title">
        <h2 id="class-title">{w.title}</h2>
        <p>{w.how}</p>
        <p class="class-code"><span class="hidden">{w.code}</span><b>{code.value}</b></p>
        {link.value && <img src={`${root()}/v1/class/code`} alt={w.picture} width={220} height={220} />}
        <p class="small quiet">{link.value.split("/#")[0]}</p>
        <p role="status">{w.present(students.value)}{sent.value && ` · ${w.sent}`}</p>
        <div class="row">
          <button type="button" class="primary" onClick={() => void send().then(() => (sent.value = true))}>{w.send}</button>
          <button type="button" onClick={() => dialog.current?.close()}>{w.close}</button>
        </div>
      </dialog>
    </>
  );
}

/** The form for somebody who has not joined yet. */
export function Join() {
  const w = words.value;
  const submit = async (form: HTMLFormElement) => {
    await join(String(new FormData(form).get("code") ?? ""));
    if (role.value === "student") void begin();
  };
  return (
    <form class="card join" onSubmit={(event) => { event.preventDefault(); void submit(event.currentTarget); }}>
      <h2>{w.title}</h2>
      <label>{w.code} <input name="code" required maxLength={12} autocomplete="off" autocapitalize="characters" spellcheck={false} /></label>
      <button type="submit" class="primary">{w.join}</button>
    </form>
  );
}
