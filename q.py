import sys
sys.path.insert(0,'/work/shared/tools')
import nvdis
V='/root/.cache/ptx-oracle/latest/lib/python3.11/site-packages/nvidia/cu13/bin/nvdisasm'
lo=0x00000004ff0075a7; hi=0x000e640008001109
base=lo|hi<<64
def s(w,at,n,v): return w & ~(((1<<n)-1)<<at) | v<<at
W=[]
for ra in (255,9):
  for ur in (9,63,255):
    for b91 in (0,1):
      for op9 in (0x5a7,0x3a7,0x7a7,0x9a7):
        for b76 in (0,1):
          W.append(((ra,ur,b91,hex(op9),b76),s(s(s(s(s(base,24,8,ra),64,8,ur),91,1,b91),0,12,op9),76,1,b76)))
for sm in ("SM90","SM100","SM120"):
  for (k,_),t in zip(W,nvdis.disassemble(sm,[w for _,w in W],V)):
    if t: print(sm,k,t)
