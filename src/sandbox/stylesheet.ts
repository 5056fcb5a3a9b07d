// The practice pages' only stylesheet, served as /sandbox.css. Phone first, light and dark, visible focus, no font from elsewhere.

export const STYLESHEET = `
:root {
  color-scheme: light dark;
  --ground: #f3f4f7; --card: #ffffff; --text: #1d2230; --muted: #5a6275; --line: #d5d9e2; --field: #f7f8fb;
  --accent: #1b5fc1; --on-accent: #ffffff; --tint: #e8f0fc; --banner: #ffe9a8; --on-banner: #4a3500; --banner-line: #d9a400;
}
body.slack { --accent: #6b2a78; --tint: #f5ebf7; }
body.sandbox { --accent: #1f6d5c; --tint: #e5f3ef; }
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #14171f; --card: #1e222d; --text: #eceef4; --muted: #a7aec0; --line: #3a4152; --field: #252a37;
    --accent: #8ab6ff; --on-accent: #0c1a30; --tint: #24324b; --banner: #4a3a08; --on-banner: #ffe9a8; --banner-line: #9a7a10;
  }
  body.slack { --accent: #dba6e6; --on-accent: #2b0f32; --tint: #3d2944; }
  body.sandbox { --accent: #83d3bf; --on-accent: #06251e; --tint: #20403a; }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body {
  margin: 0; min-height: 100vh; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; overflow-wrap: anywhere;
}
.banner {
  margin: 0; text-wrap: balance; font-size: .9rem; padding: .6rem .75rem; text-align: center; background: var(--banner); color: var(--on-banner);
  border-bottom: 2px dashed var(--banner-line);
}
.card { max-width: 30rem; margin: 0 auto; padding: 1.5rem 1.25rem 1.75rem; background: var(--card); }
.mark { margin: 0 0 .75rem; }
.mark span {
  display: inline-grid; place-items: center; width: 2.75rem; height: 2.75rem; border: 2px dashed var(--accent);
  border-radius: .75rem; color: var(--accent); font-weight: 700; font-size: 1.2rem; letter-spacing: -.02em;
}
h1 { margin: 0 0 .6rem; font-size: 1.45rem; line-height: 1.25; text-wrap: balance; }
h2 { margin: 1.75rem 0 .5rem; font-size: 1.05rem; }
p { margin: 0 0 .9rem; }
.card > :last-child { margin-bottom: 0; }
a { color: var(--accent); }
.lead { color: var(--muted); margin-bottom: 1.25rem; }
.lead p:last-child { margin-bottom: 0; }
.lead strong { color: var(--text); }
.muted, small { color: var(--muted); }
small { display: block; font-size: .875rem; line-height: 1.4; }
.code { color: var(--muted); font-size: .9rem; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: .9em; }
fieldset { border: 0; margin: 0 0 1.25rem; padding: 0; min-width: 0; }
legend { padding: 0; margin-bottom: .6rem; font-weight: 600; }
ul.plain { list-style: none; margin: 0 0 1.25rem; padding: 0; }
.choice, .person {
  display: flex; align-items: flex-start; gap: .75rem; width: 100%; margin: 0 0 .5rem; padding: .8rem .9rem; text-align: left;
  border: 1px solid var(--line); border-radius: .7rem; background: var(--field); color: inherit; font: inherit; cursor: pointer;
}
.person { align-items: center; }
.choice:hover, .person:hover { border-color: var(--accent); }
.choice:has(input:checked) { border-color: var(--accent); background: var(--tint); }
.choice input { flex: none; width: 1.2rem; height: 1.2rem; margin: .15rem 0 0; accent-color: var(--accent); }
.choice > span, .person > span:last-child { flex: 1; min-width: 0; }
.choice b, .person b { display: block; font-weight: 600; }
.given { padding: .35rem 0 .35rem 1.6rem; position: relative; }
.given::before { content: "✓"; position: absolute; left: 0; color: var(--accent); font-weight: 700; }
.whom { display: flex; align-items: center; gap: .75rem; padding: .35rem 0; }
.face {
  flex: none; display: grid; place-items: center; width: 2.5rem; height: 2.5rem; border-radius: 50%;
  background: var(--tint); color: var(--accent); font-weight: 700;
}
.actions { display: flex; flex-direction: column; gap: .6rem; margin-top: 1.5rem; }
button.act {
  width: 100%; padding: .75rem 1.4rem; border-radius: .7rem; border: 1px solid var(--line); background: transparent; color: var(--text);
  font: inherit; font-weight: 600; cursor: pointer;
}
button.act:hover { border-color: var(--accent); }
button.act.primary { background: var(--accent); border-color: var(--accent); color: var(--on-accent); }
button.act.primary:hover { filter: brightness(1.08); }
button.small { width: auto; padding: .4rem .8rem; font-size: .9rem; }
.whose { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: .25rem .75rem; margin: .9rem 0 1.25rem;
  padding: .6rem .9rem; border: 1px solid var(--line); border-radius: .7rem; }
.whose form { margin: 0; }
.whose > span { font-weight: 600; }
button.link { padding: 0; border: 0; background: none; color: var(--accent); font: inherit; text-decoration: underline; cursor: pointer; }
.grant { display: flex; flex-wrap: wrap; align-items: center; justify-content: space-between; gap: .5rem 1rem; padding: .8rem 0;
  border-top: 1px solid var(--line); }
.grant + p { padding-top: .9rem; border-top: 1px solid var(--line); }
.grant > span { flex: 1 1 14rem; min-width: 0; }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
.foot { max-width: 30rem; margin: 0 auto; padding: 1rem 1.25rem 2rem; color: var(--muted); font-size: .85rem; text-align: center; text-wrap: balance; }
@media (min-width: 34rem) {
  .banner { font-size: 1rem; }
  .card { margin-top: 2.5rem; padding: 2.25rem 2.5rem; border: 1px solid var(--line); border-radius: 1.1rem; }
  .actions { flex-direction: row; }
  button.act { width: auto; min-width: 7.5rem; }
}
@media (forced-colors: active) { .choice:has(input:checked) { outline: 2px solid Highlight; } }
`;
