import type en from "../en/lab";

const ko: typeof en = {
  title: "실험실",
  teacherOnly: "실험실은 선생님만 볼 수 있습니다.",
  loading: "불러오는 중입니다…",
  claims: "주장",
  races: "모델 경주",
  noRaces: "아직 보고서가 없습니다: jumok race … --out runs/race",
  choose: "주장을 고르면 결과를 읽거나 여기에서 직접 확인해 볼 수 있습니다.",
  holds: "성립",
  doesNot: "성립하지 않음",
  untested: "확인 전",
  running: "확인하는 중…",
  scale: "규모",
  start: "여기서 확인하기",
  finding: "결과",
  output: "진행 상황",
  nothingYet: "여기서는 아직 확인하지 않은 주장입니다.",
};
export default ko;
