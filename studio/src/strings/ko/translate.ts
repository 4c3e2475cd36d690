import type en from "../en/translate";

const ko: typeof en = {
  title: "번역",
  text: "번역할 글",
  translation: "번역 결과",
  placeholder: "문장을 입력하세요",
};
export default ko;
