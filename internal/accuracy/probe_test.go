package accuracy
import ("testing";"os";"path/filepath";"fmt";"rankmap/configs";"rankmap/internal/measured")
func TestProbe(t *testing.T){
 c,err:=New(configs.FS,Options{}); if err!=nil {t.Fatal(err)}
 var fs []string
 for _,g:=range []string{"public/collectives.csv","public/published_tables.csv","h200-x2/nccl-tests/*"} { m,_:=filepath.Glob("/work/shared/measured/"+g); fs=append(fs,m...)}
 for _,f:=range fs { r,_:=os.Open(f); x,err:=measured.Read(r,filepath.Base(f)); if err!=nil{t.Fatal(err)}
  res:=c.Rows(x); fmt.Println(f, Score(res.Cases,Textbook),Score(res.Cases,NCCL),Score(res.Cases,Ours)); fmt.Println(res.Skipped)
  if len(res.Cases)>100 { for _,k:=range Classes(res.Cases,func(c*Case)Key{return Key{System:c.System,Nodes:c.Nodes}}) { fmt.Println(k.Key, Score(k.Cases,Textbook),Score(k.Cases,NCCL),Score(k.Cases,Ours)) }}
 }
}
