/** A hundredth of the real work: hundreds of people sign in here. passwords.test.ts and the started processes have the real one. */
export const QUICK_PASSWORDS = { N: 1024, r: 8, p: 1 };
