import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { classifyAddress, createAddressPolicy, isLoopbackHost, plainHost, readAllowEntry } from "../../src/net/addresses.js";

/** Spellings of addresses that an outbound call may not reach by default. Checked as text; nothing is connected to. */
const NOT_PUBLIC = `
  127.0.0.1 127.0.0.2 127.1 127.0.1 127.255.255.255 2130706433 0x7f000001 0x7f.1 0x7f.0x0.0x0.0x1 0177.0.0.1 017700000001 0177.1
  0x7F000001 127.0.0.01 0x7f.0.0.1 127.0x1 10.0.0.1 10.255.255.255 10.1 0xa.1 012.0.0.1 167772161 0x0a000001
  172.16.0.1 172.31.255.255 172.16.1 0xac100001 2886729729 192.168.0.1 192.168.1 192.168.255.255 0xc0a80001 3232235521 0300.0250.0.1
  100.64.0.1 100.100.100.100 100.127.255.255 192.0.0.1 192.0.0.8 192.0.2.1 192.88.99.1 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.1
  240.0.0.1 254.255.255.255 192.175.48.1 192.31.196.1 192.52.193.1
  ::1 0:0:0:0:0:0:0:1 0000:0000:0000:0000:0000:0000:0000:0001 ::0001 0::1 ::ffff:127.0.0.1 ::ffff:7f00:1 ::ffff:10.0.0.1 ::ffff:a00:1
  ::FFFF:192.168.0.1 0:0:0:0:0:ffff:7f00:0001 ::ffff:172.16.0.1 ::ffff:100.64.0.1 ::ffff:0:127.0.0.1 ::ffff:0:a00:1 ::127.0.0.1 ::7f00:1
  ::10.0.0.1 ::8.8.8.8 64:ff9b::127.0.0.1 64:ff9b::7f00:1 64:ff9b::10.0.0.1 64:ff9b::8.8.8.8 64:ff9b:1::10.0.0.1
  2002:7f00:1:: 2002:a00:1::1 2002:c0a8:1::1 2002:808:808::1 2001:0:4136:e378:8000:63bf:3fff:fdd2
  fc00::1 fd00::1 fd12:3456:789a::1 fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff fec0::1 feff::1 2001:db8::1 2001:2::1 2001:3::1 2001:10::1
  2001:20::1 2001:30::1 2001:4:112::1 2620:4f:8000::1 5f00::1 3fff::1 3fff:fff::1 4000::1 8000::1 e000::1 1::1 200::1 fe00::1
`;

/** Never reachable, whatever the settings say. */
const FORBIDDEN = `
  169.254.169.254 169.254.0.1 169.254.170.2 169.254.255.255 2852039166 0xa9fea9fe 0xa9.0xfe.0xa9.0xfe 0251.0376.0251.0376 169.254.43518
  ::ffff:169.254.169.254 ::ffff:a9fe:a9fe ::169.254.169.254 64:ff9b::169.254.169.254 64:ff9b::a9fe:a9fe 64:ff9b:1::a9fe:a9fe
  2002:a9fe:a9fe::1 2001:0:a9fe:a9fe:: 2001:0:808:808:0:0:5601:5601 ::ffff:0:169.254.169.254 fe80::1 fe80::1%eth0 fe80::1%1 febf::1
  0.0.0.0 0 0x0 0.1.2.3 0.255.255.255 :: 0:0:0:0:0:0:0:0 ::ffff:0.0.0.0 255.255.255.255 224.0.0.1 239.255.255.255 ff02::1 ff05::1 100::1
  fd00:ec2::254 fd00:0ec2:0:0:0:0:0:0254 fd20:ce::254 fd00:42::42 100.100.100.200 0x646464c8 192.0.0.192 168.63.129.16 ::ffff:168.63.129.16
  64:ff9b::168.63.129.16 2002:a83f:8110::1 64:ff9b:1:abcd::1 2001:0:7f00:1:: 2001::1
`;

const PUBLIC = `
  8.8.8.8 1.1.1.1 9.255.255.255 11.0.0.1 100.63.255.255 100.128.0.1 126.255.255.255 128.0.0.1 169.253.0.1 169.255.0.1 172.15.255.255 172.32.0.1
  192.167.255.255 192.169.0.1 198.17.255.255 198.20.0.1 223.255.255.255 2606:4700:4700::1111 2a00:1450:4001:800::200e 2001:4860:4860::8888
  2001:200::1 2620:fe::fe 3ffe::1 ::ffff:8.8.8.8 ::ffff:808:808 134744072 0x08080808
`;

const words = (text: string) => text.split(/\s+/).filter((word) => word !== "");

test("more than a hundred spellings of private addresses are not public", () => {
  const all = words(NOT_PUBLIC);
  assert.ok(new Set(all).size > 100, String(new Set(all).size));
  for (const address of all) assert.equal(classifyAddress(address), "private", address);
});

test("link-local, metadata, unspecified, multicast and broadcast addresses are forbidden, also inside tunnels and translations", () => {
  for (const address of words(FORBIDDEN)) assert.equal(classifyAddress(address), "forbidden", address);
});

test("public addresses are public, right up to the borders of the private blocks", () => {
  for (const address of words(PUBLIC)) assert.equal(classifyAddress(address), "public", address);
});

test("what cannot be read as an address is refused", () => {
  for (const text of [
    "",
    " ",
    "localhost",
    "example.com",
    "1.2.3.4.5",
    "256.256.256.256",
    "0x",
    "1.2.3.4/8",
    "[::1]",
    "::1::",
    ":::",
    "127.0.0.1:80",
    "１２７.0.0.1",
    "127。0。0。1",
    "8.8.8.8 ",
    "9".repeat(50),
  ]) {
    assert.equal(classifyAddress(text), "forbidden", JSON.stringify(text));
    assert.equal(createAddressPolicy(true).permits("x", text), false);
  }
});

test("whatever private IPv4 address is put into whatever IPv6 form, it never becomes public", () => {
  const hex = (high: number, low: number) => ((high << 8) | low).toString(16);
  fc.assert(
    fc.property(
      fc.constantFrom([10], [127], [192, 168], [172, 16], [169, 254], [100, 64], [0]),
      fc.nat(255),
      fc.nat(255),
      fc.nat(255),
      (head, x, y, z) => {
        const [a = 0, b = 0, c = 0, d = 0] = [...head, x, y, z];
        const [ab, cd] = [hex(a, b), hex(c, d)];
        const forms = [
          `${a}.${b}.${c}.${d}`,
          `::ffff:${ab}:${cd}`,
          `::${ab}:${cd}`,
          `64:ff9b::${ab}:${cd}`,
          `64:ff9b:1::${ab}:${cd}`,
          `2002:${ab}:${cd}::1`,
          `::ffff:0:${ab}:${cd}`,
          `2001:0:${ab}:${cd}::`,
          String(((a << 24) | (b << 16) | (c << 8) | d) >>> 0),
        ];
        for (const form of forms) assert.notEqual(classifyAddress(form), "public", form);
      },
    ),
  );
});

test("ALLOW_PRIVATE_NETWORK=true opens private addresses and keeps the forbidden ones shut", () => {
  const policy = createAddressPolicy(true);
  for (const address of [...words(NOT_PUBLIC), ...words(PUBLIC)]) assert.equal(policy.permits("host.example", address), true, address);
  for (const address of words(FORBIDDEN)) assert.equal(policy.permits("host.example", address), false, address);
});

test("without an allowance only public addresses are permitted", () => {
  const policy = createAddressPolicy([]);
  for (const address of words(NOT_PUBLIC)) assert.equal(policy.permits("host.example", address), false, address);
  for (const address of words(PUBLIC)) assert.equal(policy.permits("host.example", address), true, address);
});

test("a list opens its blocks and its hosts, and nothing beside them", () => {
  const policy = createAddressPolicy(["10.1.0.0/16", "fd12::/16", "192.168.7.7", "Printer.Internal.", "169.254.0.0/16"]);
  const permitted: [string, string][] = [
    ["x", "10.1.2.3"],
    ["x", "::ffff:10.1.2.3"],
    ["x", "fd12::5"],
    ["x", "192.168.7.7"],
    ["printer.internal", "10.9.9.9"],
    ["PRINTER.internal.", "::1"],
    ["x", "8.8.8.8"],
  ];
  const refused: [string, string][] = [
    ["x", "10.2.0.1"],
    ["x", "fd13::1"],
    ["x", "192.168.7.8"],
    ["other.internal", "10.9.9.9"],
    ["a.printer.internal", "10.9.9.9"],
    ["printer.internal", "169.254.169.254"],
    ["x", "169.254.1.1"],
    ["x", "127.0.0.1"],
  ];
  for (const [host, address] of permitted) assert.equal(policy.permits(host, address), true, `${host} ${address}`);
  for (const [host, address] of refused) assert.equal(policy.permits(host, address), false, `${host} ${address}`);
  assert.equal(createAddressPolicy(["0.0.0.0/0", "::/0"]).permits("x", "169.254.169.254"), false);
  assert.equal(createAddressPolicy(["0.0.0.0/0", "::/0"]).permits("x", "fd00:ec2::254"), false);
  assert.equal(createAddressPolicy(["0.0.0.0/0"]).permits("x", "10.0.0.1"), true);
});

test("loopback names and addresses are told from look-alikes", () => {
  for (const host of ["localhost", "LOCALHOST", "localhost.", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]", "::ffff:127.0.0.1"])
    assert.equal(isLoopbackHost(host), true, host);
  for (const host of ["localhost.example.com", "notlocalhost", "127.0.0.1.example.com", "10.0.0.1", "0.0.0.0", "example.com", "", "::2"])
    assert.equal(isLoopbackHost(host), false, host);
});

test("brackets, a last dot and capitals do not make another host", () => {
  assert.deepEqual(["[::1]", "Example.COM.", "a"].map(plainHost), ["::1", "example.com", "a"]);
});

test("an entry of the list is a host, an address or a CIDR", () => {
  for (const good of ["host", "a.b-c.d", "_srv.internal", "10.0.0.1", "10.0.0.0/8", "::1", "[fd00::1]", "fd00::/8"])
    assert.notEqual(readAllowEntry(good), null, good);
  for (const bad of ["", "*", "*.a", "http://a", "a:80", "a/8", "10.0.0.0/33", "fd00::/129", "-a", "a-", "a..b", "a b", "ü.example"])
    assert.equal(readAllowEntry(bad), null, bad);
});
