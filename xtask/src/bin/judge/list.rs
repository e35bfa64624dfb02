//! What is to be run: the file `launches.txt` of the folder.

use sim::Launch;
use std::path::Path;

/// A launch with one cubin.
#[derive(Clone, Debug)]
pub struct Item {
    /// `saxpy.basic`
    pub name: String,
    /// `vendor` or `ours`
    pub who: &'static str,
    /// Launch file, relative to the folder.
    pub launch: String,
    /// Cubin, relative to the folder.
    pub cubin: String,
}

impl Item {
    /// Reads the launch file.
    pub fn launch(&self, root: &Path) -> Result<Launch, String> {
        let path = root.join(&self.launch);
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let folder = path.parent().ok_or("no folder")?;
        Launch::parse(&text, &mut |f| std::fs::read(folder.join(f)).map_err(|e| e.to_string()))
            .map_err(|d| d.iter().map(|d| d.message.clone()).collect::<Vec<_>>().join("; "))
    }
}

/// The items of the list: for each line `NAME<TAB>LAUNCH FILE<TAB>CUBIN`, the vendor's and ours, as far as the folder has them.
pub fn read(root: &Path, filter: Option<&str>) -> Result<Vec<Item>, String> {
    let path = root.join("launches.txt");
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let mut items = Vec::new();
    for line in text.lines().filter(|l| !l.is_empty()) {
        let parts: Vec<&str> = line.split('\t').collect();
        let [name, launch, cubin] = parts.as_slice() else { return Err(format!("launches.txt: {line}")) };
        if filter.is_some_and(|f| !name.contains(f)) {
            continue;
        }
        for who in ["vendor", "ours"] {
            let cubin = format!("cubin/{who}/{cubin}");
            // What our compiler does not compile yet has the vendor's cubin only.
            if root.join(&cubin).exists() {
                items.push(Item { name: name.to_string(), who, launch: launch.to_string(), cubin });
            }
        }
    }
    Ok(items)
}
