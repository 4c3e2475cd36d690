import type en from "../en/class";

const ko: typeof en = {
  class: "수업",
  title: "수업에 들어가기",
  how: "학생들은 이 주소를 열거나 휴대전화 카메라로 그림을 비춘 다음 코드를 입력합니다.",
  code: "코드",
  picture: "주소와 코드를 담은 QR 코드",
  present: (count) => `학생 ${count}명이 들어와 있습니다`,
  send: "모두 이 화면으로 데려오기",
  sent: "보냈습니다",
  close: "닫기",
  join: "들어가기",
  follow: "선생님 화면 따라가기",
};
export default ko;
