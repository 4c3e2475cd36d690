import type en from "../en/errors";

const ko: typeof en = {
  title: "오류",
  teacherOnly: "오류 화면은 선생님만 볼 수 있습니다.",
  loading: "불러오는 중입니다…",
  noRuns: "학습이 끝난 실행이 없습니다. 오류를 보려면 완성된 모델과 검증 세트가 있어야 합니다.",
  run: "실행",
  order: "순서",
  orders: { chrf: "가장 나쁜 것", long: "너무 긴 것", sure: "지나치게 확신한 것", copied: "베낀 것" },
  explain: {
    chrf: "정답과 글자가 가장 적게 겹치는 번역(chrF)부터 보여 줍니다.",
    long: "정답과 비교해 가장 긴 번역부터 보여 줍니다.",
    sure: "모델은 확신했지만 틀린 번역부터 보여 줍니다.",
    copied: "원문의 단어를 그대로 옮겨 적은 번역부터 보여 줍니다.",
  },
  translating: "검증 세트를 번역하는 중입니다…",
  source: "원문",
  translation: "번역",
  reference: "정답",
  length: "길이",
  probability: "확률",
  copied: "베낌",
  inside: "속 보기",
  back: "이전",
  next: "다음",
  of: (first, last, all) => `${all}개 가운데 ${first}~${last}번째`,
};
export default ko;
