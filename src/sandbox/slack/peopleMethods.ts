// auth.*, users.*, team.info of the practice Slack.
import { SlackRefusal, type SlackCall, type SlackMethod } from "./call.js";
import { pageOf } from "./paging.js";
import { BOT, type Member, MEMBERS, TEAM } from "./workspace.js";

function memberOf(id: string | null): Member {
  const member = MEMBERS.find((one) => one.id === id);
  if (!member) throw new SlackRefusal("user_not_found");
  return member;
}

function profileOf(member: Member, call: SlackCall): Record<string, unknown> {
  const withEmail = call.scopes.includes("users:read.email") && member.email !== null;
  return {
    real_name: member.realName,
    display_name: member.name,
    title: member.title,
    team: member.kind === "stranger" ? "T06BRIGHTW" : TEAM.id,
    ...(withEmail && { email: member.email }),
  };
}

function userOf(member: Member, call: SlackCall): Record<string, unknown> {
  return {
    id: member.id,
    team_id: member.kind === "stranger" ? "T06BRIGHTW" : TEAM.id,
    name: member.name,
    real_name: member.realName,
    deleted: member.kind === "deleted",
    is_bot: member.kind === "bot",
    is_stranger: member.kind === "stranger",
    is_app_user: false,
    tz: "Europe/Oslo",
    profile: profileOf(member, call),
  };
}

export const PEOPLE_METHODS: readonly SlackMethod[] = [
  {
    name: "auth.test",
    run: (call) => ({
      url: `https://${TEAM.domain}.sandbox.example/`,
      team: TEAM.name,
      user: memberOf(call.user).name,
      team_id: TEAM.id,
      user_id: call.user,
      ...(call.bot && { bot_id: BOT.botId }),
      is_enterprise_install: false,
    }),
  },
  {
    name: "auth.revoke",
    writes: true,
    run(call) {
      // `test=1` only shows what would happen.
      if (call.flag("test")) return { revoked: false };
      call.revokeSelf();
      return { revoked: true };
    },
  },
  {
    name: "users.list",
    run(call) {
      call.need("users:read");
      const people = MEMBERS.filter((member) => member.kind !== "stranger");
      const page = pageOf(people, call);
      return {
        members: page.items.map((member) => userOf(member, call)),
        cache_ts: 0,
        response_metadata: { next_cursor: page.nextCursor },
      };
    },
  },
  {
    name: "users.info",
    run(call) {
      call.need("users:read");
      return { user: userOf(memberOf(call.text("user")), call) };
    },
  },
  {
    name: "users.profile.get",
    run(call) {
      call.need("users.profile:read");
      return { profile: profileOf(memberOf(call.text("user") ?? call.user), call) };
    },
  },
  {
    name: "users.identity",
    run(call) {
      call.need("identity.basic");
      const member = memberOf(call.user);
      const email = call.scopes.includes("identity.email") && member.email !== null;
      return { user: { id: member.id, name: member.realName, ...(email && { email: member.email }) }, team: { id: TEAM.id } };
    },
  },
  {
    name: "team.info",
    run(call) {
      call.need("team:read");
      return { team: { id: TEAM.id, name: TEAM.name, domain: TEAM.domain, email_domain: "harbourlight.example" } };
    },
  },
];
