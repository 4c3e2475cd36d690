import type en from "../en/terms";

const ko: typeof en = {
  section: (number) => `논문 ${number}절`,
  symbols: "이 식에 나오는 기호",
};
export default ko;
